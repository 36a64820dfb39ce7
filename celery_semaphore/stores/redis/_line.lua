-- Who waits at one resource. A ticket is "<255 - priority>.<place>.<maker>": as text it sorts by priority, then
-- by first come, so it keeps its place wherever it goes, even out of the store and back.
--   waiters   zset  ticket that comes back by itself -> 0
--   parked    zset  ticket to which a permit can be handed: its message lies here, or its caller listens -> 0
--   aside     zset  likewise, but the limit in force is too low for it -> 0
--   outbox    zset  ticket whose message must be sent: it was granted, or its wait has ended -> 0
--   due       zset  ticket -> when it is dropped or, with a message, when its wait ends
--   tickets   hash  ticket -> what it waits for; "by:" and its maker -> ticket, for an acquire that is repeated
--   payloads  hash  ticket -> its message, until it is sent

local function place_of(ticket)
    return tonumber(ticket:sub(5, 20))
end

-- A ticket as it is known here: an operator may have raised it, see promote.lua, and granted to it may be what its
-- task comes for by another message.
local function known_as(ticket)
    local raised = "000" .. ticket:sub(4)
    for _, at in ipairs(resources) do
        if call("ZSCORE", at.holders, raised) then
            return raised
        end
    end
    for _, at in ipairs(resources) do
        local stands = not at.quiet and call("HGET", at.tickets, maker_of(ticket))
        if stands then
            return stands
        end
    end
    return ticket
end

local function stand(at, ticket, info, payload)
    at.quiet = false
    call("HSET", at.tickets, ticket, cmsgpack.pack(info), maker_of(ticket), ticket)
    local stays = payload or info.kind == "call"
    call("ZREM", stays and at.waiters or at.parked, ticket)
    call("ZREM", at.aside, ticket)
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
    local count = call("ZLEXCOUNT", at.waiters, "-", before) + call("ZLEXCOUNT", at.parked, "-", before)
    return count + call("ZLEXCOUNT", at.aside, "-", before)
end

-- The first parked one, up to there, that the limit in force could ever let in. The others are put aside until a
-- higher one is in force, or every call would have to step over them. So many in one call, then there is more to do.
local function first(at, up_to, limit)
    local low = tonumber(known(at).low)
    if low and not (limit and limit <= low) then
        call("ZUNIONSTORE", at.parked, 2, at.parked, at.aside)
        call("DEL", at.aside)
        call("HDEL", at.ledger, "low")
        at.low = nil
    end
    for _ = 1, 1000 do
        local ticket = call("ZRANGEBYLEX", at.parked, "-", up_to, "LIMIT", 0, 1)[1]
        local info = ticket and ticket_info(at, ticket)
        local most = limit or info and info.limits[at.name]
        if not ticket or info.weights[at.name] <= most then
            return ticket
        end
        call("ZREM", at.parked, ticket)
        call("ZADD", at.aside, 0, ticket)
        if at.low ~= most then
            at.low = most
            call("HSET", at.ledger, "low", most)
        end
    end
    use(at, now) -- whoever looks next goes on
    return up_to, true
end

-- The first that comes back by itself, before this ticket, and that the limit in force could ever let in.
local function ahead(at, ticket, limit)
    for skipped = 0, 1000 do
        local other = call("ZRANGEBYLEX", at.waiters, "-", "(" .. ticket, "LIMIT", skipped, 1)[1]
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
    if first(at, "(" .. ticket, claim.limit) then return "saturated" end
    local other, heavy = ahead(at, ticket, claim.limit)
    if other and heavy > weight and claim.occupied + weight + heavy > claim.limit then return "saturated" end
end
