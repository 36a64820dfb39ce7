-- Claim overdue resources for the caller, so that workers that call at the same moment get different ones. The claim
-- ends by itself, since the caller may die before it reaps.
--   arg 1 how many at most  2 the calling process, see processes.py
--   the last key is the zset of processes -> when each reaped last
-- Returns {epoch, names}
local CLAIMED = 1000000 -- microseconds: longer than the reaping takes, and a short delay for a waiting task
local processes, kept = KEYS[COMMON + 1], math.max(SEEN_FOR_S * 1000000, LEASE)
even_if_full()
call("ZADD", processes, now, arg(2))
call("ZREMRANGEBYSCORE", processes, "-inf", now - kept)
call("ZREMRANGEBYSCORE", processes, furthest(), "+inf") -- after the clock stepped back
call("PEXPIRE", processes, math.ceil(kept / 1000)) -- no process is left then

local most = tonumber(arg(1))
local names = call("ZRANGEBYSCORE", INDEX, "-inf", now, "LIMIT", 0, most)
if #names < most then -- after the clock stepped back; else there are none
    for _, name in ipairs(call("ZRANGEBYSCORE", INDEX, furthest() + 1, "+inf", "LIMIT", 0, most - #names)) do
        table.insert(names, name)
    end
end
for _, name in ipairs(names) do
    call("ZADD", INDEX, "XX", now + CLAIMED, name)
end
return {epoch, names}
