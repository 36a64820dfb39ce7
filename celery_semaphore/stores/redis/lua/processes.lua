-- Return the processes that reaped lately.
--   the last key is the zset of overdue.lua
-- Returns {epoch, names}
local oldest = now - math.max(SEEN_FOR_S * 1000000, LEASE)
return {epoch, call("ZRANGEBYSCORE", KEYS[COMMON + 1], string.format("(%.0f", oldest), "+inf")}
