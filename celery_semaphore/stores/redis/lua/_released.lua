-- How a permit is taken out of the books for good; see _permits.lua for the keys.
local AT_ONCE = 50 -- overdue entries ended in one call: the server must not stand still for a crowd
local SELDOM = 8 -- calls to one that also forgets; AT_ONCE is more than come in between

-- `confirmed`: written or renewed in this epoch. Put back ("r") is what this epoch had forgotten; in the next one it is
-- remembered as all others.
local function parsed(record)
    local token, since, weight, written, by, rank = record:match("^(%d+) (%d+) (%d+) (%d+) (%a?)(.*)$")
    local confirmed, begin = written == EPOCH_WRITTEN, tonumber(since)
    return {
        token = token == since and begin or tonumber(token), since = begin, weight = tonumber(weight),
        epoch = written, confirmed = confirmed,
        by = by ~= "r" and by or "", restored = confirmed and by == "r", rank = rank,
    }
end

-- A wait is known by its nonce, the holder for which it was made. A ticket is how it is written outside: its rank,
-- which a promotion changes, and its nonce. Answers nil for what is no ticket.
local function nonce_of(ticket)
    return ticket:match("^%d%d%d%.%d+%.(.*)$")
end

-- A grant is kept among the holders, where the same nonce may hold a permit: a byte before it that no UTF-8 text has,
-- and so no holder, keeps the two apart.
local GRANT = "\255"

-- Answers whether it was there; `permit` is what the ledger says of it.
local function erase(at, name, permit)
    call("HDEL", at.ledger, "of:" .. name)
    if not permit or permit.weight ~= 1 then
        call("HDEL", at.weights, name)
    end
    if permit and permit.by ~= "" then
        call("HDEL", at.ledger, string.format("for:%.0f", permit.token))
    end
    return call("ZREM", at.holders, name) == 1
end

-- Remembered for one lease: after a lease without a renewal the holder itself takes its permit for lost,
-- so no honest renewal or acquire is on its way any more. Always after an erase, so that a full server lets it be.
local function mark_released(at, holder)
    call("ZADD", at.released, LEASE_END, holder)
    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))
    if now % SELDOM == 0 then -- the clock's last digits, as good as a die
        local old = call("ZRANGEBYSCORE", at.released, "-inf", now, "LIMIT", 0, AT_ONCE)
        if #old > 0 then
            call("ZREM", at.released, unpack(old))
        end
    end
end

