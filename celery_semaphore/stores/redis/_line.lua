-- Who waits at one resource. A ticket is "<255 - priority>.<place>.<maker>": as text it sorts by priority, then
-- by first come, so it keeps its place wherever it goes, even out of the store and back.
--   waiters   zset  ticket that comes back by itself -> 0
--   parked    zset  ticket to which a permit can be handed: its message lies here, or its caller listens -> 0
--   outbox    zset  ticket whose message must be sent: it was granted, or its wait has ended -> 0
--   due       zset  ticket -> when it is dropped or, with a message, when its wait ends
--   tickets   hash  ticket -> what it waits for; "by:" and its maker -> ticket, for an acquire that is repeated
--   payloads  hash  ticket -> its message, until it is sent

local function place_of(ticket)
    return tonumber(ticket:sub(5, 20))
end

local function stand(at, ticket, info, payload)
    at.quiet = false
    call("HSET", at.tickets, ticket, cmsgpack.pack(info), maker_of(ticket), ticket)
    local stays = payload or info.kind == "call"
    call("ZREM", stays and at.waiters or at.parked, ticket)
    call("ZADD", stays and at.parked or at.waiters, 0, ticket)
    call("ZADD", at.due, not payload and info.due + LEASE or info.ends or "+inf", ticket)
    if payload then
        call("HSET", at.payloads, ticket, payload)
        if info.ends then
            use(at, info.ends)
        end
        if info.name ~= "" then
            call("HSET", NAMES, info.name, at.name .. "\n" .. ticket)
        end
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
