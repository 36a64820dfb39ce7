-- Read and delete the records of permits and grants, and write tombstones; see _permits.lua for the keys.
local records = {}
local SELDOM = 16 -- one call in so many also deletes tombstones; AT_ONCE is more than come in between

-- Parse a record of the ledger. `confirmed`: written or renewed in this epoch. `restored` ("r"): lately, by its
-- holder, after the store had lost the permit (A21).
function records.parsed(record)
    local token, since, weight, written, by, rank = record:match("^(%d+) (%d+) (%d+) (%d+) (%a?)(.*)$")
    local confirmed, begin = written == EPOCH_WRITTEN, tonumber(since)
    return {
        token = token == since and begin or tonumber(token), since = begin, weight = tonumber(weight),
        confirmed = confirmed, by = by ~= "r" and by or "", restored = by == "r", rank = rank,
    }
end

-- Return the nonce of a ticket, or nil for a text that is no ticket. The nonce is the key of a wait: the holder that
-- was refused first. The ticket is its name outside of the store: the rank, which a promotion changes, and the nonce.
function records.nonce_of(ticket)
    return ticket:match("^%d%d%d%.%d+%.(.*)$")
end

-- Delete a permit or a grant; return whether it was there. `permit` is its parsed record.
function records.erase(at, name, permit)
    call("HDEL", at.ledger, "of:" .. name, "again:" .. name)
    if not permit or permit.weight ~= 1 then
        call("HDEL", at.weights, name)
    end
    if permit and permit.by ~= "" then
        call("HDEL", at.ledger, string.format("for:%.0f", permit.token))
    end
    return call("ZREM", at.holders, name) == 1
end

-- R4: write a tombstone for one lease. After a lease without a renewal the holder itself treats its permit as lost, so
-- none of its calls is on the way any more. Call it after records.erase(), so that a server without free memory accepts
-- the script.
function records.mark_released(at, holder)
    call("ZADD", at.released, LEASE_END, holder)
    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))
    if now % SELDOM == 0 then -- the last digits of the clock are random enough
        local old = call("ZRANGEBYSCORE", at.released, "-inf", now, "LIMIT", 0, AT_ONCE)
        if #old > 0 then
            call("ZREM", at.released, unpack(old))
        end
    end
end
