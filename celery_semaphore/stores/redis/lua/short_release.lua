-- Release a permit of weight 1 for good, by its task's first message or none, where no task waits.
--   for the keys and arguments see _short.lua
-- Returns 0, or epoch
if call("EXISTS", TICKETS) == 1 then -- R6, R7
    return 0
end
local FIELD = "of:" .. HOLDER
local FOUND = call("HMGET", LEDGER, FIELD, "mean", "mean_samples", "again:" .. HOLDER)
local RECORD = not FOUND[4] and FOUND[1] -- R5
local SINCE = RECORD and RECORD:sub(34, 36) == " 1 " and RECORD:sub(18, 33) -- behind a token of 16 digits; weights
local HELD_FOR = SINCE and math.max(0, NUMBER - SINCE) -- the clock may have stepped back
if not SINCE or HELD_FOR >= LEASE then -- R3: an overdue one does not count
    return 0
end

call("HDEL", LEDGER, FIELD) -- first: it frees memory
if call("ZREM", HOLDERS, HOLDER) == 1 then -- R3; learn() of release.lua
    local samples, before = (FOUND[3] or 0) + 1, FOUND[2] or HELD_FOR
    local mean = before + (HELD_FOR - before) / math.min(50, samples)
    if samples > 50 then
        call("HSET", LEDGER, "mean", mean)
    else
        call("HSET", LEDGER, "mean", mean, "mean_samples", samples)
    end
end
call("ZADD", RELEASED, END, HOLDER) -- R4; mark_released() of _records.lua
call("PEXPIRE", RELEASED, math.ceil(LEASE / 1000))
if NUMBER % 16 == 0 then
    local old = call("ZRANGEBYSCORE", RELEASED, "-inf", NOW, "LIMIT", 0, 50)
    if #old > 0 then
        call("ZREM", RELEASED, unpack(old))
    end
end
if call("EXISTS", HOLDERS) == 0 then -- else it stays in use; see _index.lua
    call("PEXPIRE", LEDGER, math.ceil(LEASE / 100))
    call("ZREM", INDEX, HOLDERS:sub(#EPOCH - 4, -9)) -- the name of the resource: keys.py
end
return KNOWN:sub(1, 16)
