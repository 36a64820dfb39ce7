-- Who waits at one resource. A wait is known by its nonce, see _burial.lua. Its rank is "<255 - priority>.<place>" and
-- with the nonce it makes its ticket, which as text sorts by priority, then by first come: so it stands in a line, and
-- so it keeps its place even out of the store and back. Where both are known, the rank in the store counts.
--   waiters   zset  ticket that is in transit -> 0
--   parked    zset  ticket to which a permit can be granted: its message lies here, or its session was awake when it
--                   was seen last -> 0
--   aside     zset  likewise, but the limit in force is too low for it -> 0
--   outbox    zset  nonce of whose message must be sent -> token of its grant, or 0: its wait has ended
--   due       zset  nonce -> when it is dropped or, with a message, when its wait ends
--   tickets   hash  nonce -> its rank, and what it waits for, packed
--   payloads  hash  nonce -> its message, until it is sent

local function place_of(ticket)
    return tonumber(ticket:sub(5, RANK))
end

-- Once at each resource: it may stand here already, promoted meanwhile, or by a message with another name.
local function enqueue(at, ticket, info, payload)
    local nonce = nonce_of(ticket)
    local before, stood = wait_info(at, nonce)
    ticket = before and stood < ticket and stood or ticket
    at.no_waiters = false
    call("HSET", at.tickets, nonce, ticket:sub(1, RANK) .. cmsgpack.pack(info)) -- first: this a full server refuses
    if before then
        step_out(at, stood)
        forget_name(at, before.name, nonce)
    end
    local awake = info.session and is_awake(info.session)
    call("ZADD", (payload or awake) and at.parked or at.waiters, 0, ticket)
    local forgotten = not payload and not awake and info.due + math.max(LEASE, info.keeps or 0)
    call("ZADD", at.due, forgotten or info.ends or "+inf", nonce)
    if payload then
        call("HSET", at.payloads, nonce, payload)
        if info.ends then
            mark_in_use(at, info.ends)
        end
        if info.name ~= "" then
            call("HSET", NAMES, info.name, at.name .. "\n" .. nonce)
        end
    end
end

local function position(at, ticket)
    local before = "(" .. ticket
    local count = call("ZLEXCOUNT", at.waiters, "-", before) + call("ZLEXCOUNT", at.parked, "-", before)
    return count + call("ZLEXCOUNT", at.aside, "-", before)
end

-- H5: those at the head of the line whose session sleeps are in transit; the first of the others, or whether there is
-- more to do.
local function first_awake(at, up_to)
    for _ = 1, 1000 do
        local ticket = call("ZRANGEBYLEX", at.parked, "-", up_to, "LIMIT", 0, 1)[1]
        local info = ticket and wait_info(at, nonce_of(ticket))
        if not info or not info.session or is_awake(info.session) then
            return ticket, info
        end
        send_off(at, ticket, info)
    end
    mark_in_use(at, now) -- the next look goes on
    return nil, nil, true
end

-- The first parked one, up to there, that the limit in force could ever let in. The others are put aside until a
-- higher one is in force, or every call would have to step over them. So many in one call, then there is more to do.
local function first(at, up_to, limit)
    local too_heavy_above = tonumber(known(at).too_heavy_above)
    if too_heavy_above and not (limit and limit <= too_heavy_above) then
        call("ZUNIONSTORE", at.parked, 2, at.parked, at.aside)
        call("DEL", at.aside)
        call("HDEL", at.ledger, "too_heavy_above")
        at.too_heavy_above = nil
    end
    for _ = 1, 1000 do
        local ticket, info, more = first_awake(at, up_to)
        if more then
            return up_to, true
        end
        local most = limit or info and info.limits[at.name]
        if not ticket or info.weights[at.name] <= most then
            return ticket
        end
        call("ZREM", at.parked, ticket)
        call("ZADD", at.aside, 0, ticket)
        if at.too_heavy_above ~= most then
            at.too_heavy_above = most
            call("HSET", at.ledger, "too_heavy_above", most)
        end
    end
    mark_in_use(at, now) -- whoever looks next goes on
    return up_to, true
end

-- Why this claim refuses, or nil: the first of C1 to C5. A wait in transit blocks no other.
local function refusal(claim, ticket)
    local why = no_room(claim)
    if why or claim.at.no_waiters then
        return why
    end
    if first(claim.at, "(" .. ticket, claim.limit) then return "saturated" end
end
