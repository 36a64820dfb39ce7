-- How a permit is taken out of the books for good; see _permits.lua for the keys.
local AT_ONCE = 50 -- overdue entries ended in one call: the server must not stand still for a crowd
local SELDOM = 8 -- calls to one that also forgets; AT_ONCE is more than come in between

-- `confirmed`: written or renewed in this epoch. Put back ("r") is what this epoch had forgotten; in the next one it is
-- remembered as all others.
local function parsed(record)
    local token, since, weight, written, by = record:match("^(%d+) (%d+) (%d+) (%d+) (.*)$")
    local confirmed = written == EPOCH_WRITTEN
    return {
        token = tonumber(token), since = tonumber(since), weight = tonumber(weight), confirmed = confirmed,
        epoch = tonumber(written),
        by = by ~= "r" and by or "", restored = confirmed and by == "r",
    }
end

local function is_ticket(name)
    return name:find("^%d%d%d%.%d+%.")
end

-- Answers whether it was there.
local function erase(at, name, weight)
    local record = is_ticket(name) and call("HGET", at.ledger, "of:" .. name)
    if record then
        call("HDEL", at.ledger, "for:" .. record:match("^%d+"))
    end
    call("HDEL", at.ledger, "of:" .. name)
    if weight ~= 1 then
        call("HDEL", at.weights, name)
    end
    return call("ZREM", at.holders, name) == 1
end

-- Remembered for one lease: after a lease without a renewal the holder itself takes its permit for lost,
-- so no honest renewal or acquire is on its way any more. Always after an erase, so that a full server lets it be.
local function bury(at, holder)
    call("ZADD", at.released, now + LEASE, holder)
    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))
    if now % SELDOM == 0 then -- the clock's last digits, as good as a die
        local old = call("ZRANGEBYSCORE", at.released, "-inf", now, "LIMIT", 0, AT_ONCE)
        if #old > 0 then
            call("ZREM", at.released, unpack(old))
        end
    end
end

