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

local function maker_of(ticket)
    return "by:" .. ticket:sub(22)
end

local function ticket_info(at, ticket)
    local packed = call("HGET", at.tickets, ticket)
    return packed and cmsgpack.unpack(packed)
end

local function leave(at, ticket)
    call("ZREM", at.waiters, ticket)
    call("ZREM", at.parked, ticket)
    call("ZREM", at.due, ticket)
    call("HDEL", at.payloads, ticket)
    call("HDEL", at.tickets, ticket, maker_of(ticket))
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

-- A grant that nobody took up goes back to its place; a holder whose lease ended is dead; who did not come
-- back when it was due is forgotten. In the grace the server was away, so nobody could renew or come back.
local function drop(at)
    at.quiet = call("EXISTS", at.tickets) == 0 -- nobody waits: most calls can do without the line
    if in_grace then
        return
    end
    for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        local mine = read(at, name)
        erase(at, name)
        if not mine or mine.by == "" then
            bury(at, name)
        elseif call("HEXISTS", at.payloads, name) == 1 then
            call("ZADD", at.parked, 0, name)
        end
    end
    if at.quiet then
        return
    end
    for _, ticket in ipairs(call("ZRANGEBYSCORE", at.due, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        leave(at, ticket)
    end
end

-- Why this claim refuses, or nil. Whoever was parked before goes first; a heavy one that comes back by itself
-- is kept free what it needs, or lighter ones would starve it.
local function refusal(claim, ticket)
    local at, weight = claim.at, claim.weight
    claim.limit, claim.occupied = limit_of(at, claim.limit), occupied(at)
    if claim.limit == 0 then return "paused" end
    if weight > claim.limit then return "unsatisfiable" end
    if in_grace then return "recovering" end
    if claim.occupied + weight > claim.limit then return "saturated" end
    if at.quiet then return nil end
    if ahead(at, at.parked, ticket, claim.limit) then return "saturated" end
    local other, heavy = ahead(at, at.waiters, ticket, claim.limit)
    if other and heavy > weight and claim.occupied + weight + heavy > claim.limit then return "saturated" end
end
