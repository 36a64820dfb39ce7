-- Who waits at one resource. A ticket is "<255 - priority>.<place>.<maker>": as text it sorts by priority, then
-- by first come, so it keeps its place wherever it goes, even out of the store and back.
--   waiters   zset  ticket that comes back by itself -> 0
--   parked    zset  ticket whose message lies here -> 0
--   due       zset  ticket in waiters -> when it is dropped
--   tickets   hash  ticket -> what it waits for; "by:" and its maker -> ticket, for an acquire that is repeated
--   payloads  hash  ticket -> its message, until its grant is taken up

local function place_of(ticket)
    return tonumber(ticket:sub(5, 20))
end

local function ticket_info(at, ticket)
    local packed = call("HGET", at.tickets, ticket)
    return packed and cmsgpack.unpack(packed)
end

local function stand(at, ticket, info, payload)
    at.quiet = false
    call("HSET", at.tickets, ticket, cmsgpack.pack(info), maker_of(ticket), ticket)
    if payload then
        call("HSET", at.payloads, ticket, payload)
        call("ZADD", at.parked, 0, ticket)
        call("ZREM", at.waiters, ticket)
        call("ZREM", at.due, ticket)
    else
        call("ZADD", at.waiters, 0, ticket)
        call("ZADD", at.due, info.due + LEASE, ticket)
    end
end

local function position(at, ticket)
    local before = "(" .. ticket
    return call("ZLEXCOUNT", at.waiters, "-", before) + call("ZLEXCOUNT", at.parked, "-", before)
end

-- The first in a line, before this ticket, that the limit in force could ever let in.
local function ahead(at, line, ticket, limit)
    for skipped = 0, 1000 do
        local other = call("ZRANGEBYLEX", line, "-", "(" .. ticket, "LIMIT", skipped, 1)[1]
        if not other then
            return nil
        end
        local weight = ticket_info(at, other).weights[at.name]
        if weight <= limit then
            return other, weight
        end
    end
end

-- Why this claim refuses, or nil. Whoever was parked before goes first; a heavy one that comes back by itself
-- is kept free what it needs, or lighter ones would starve it.
local function refusal(claim, ticket)
    local why = no_room(claim)
    if why or claim.at.quiet then
        return why
    end
    local at, weight = claim.at, claim.weight
    if ahead(at, at.parked, ticket, claim.limit) then return "saturated" end
    local other, heavy = ahead(at, at.waiters, ticket, claim.limit)
    if other and heavy > weight and claim.occupied + weight + heavy > claim.limit then return "saturated" end
end
