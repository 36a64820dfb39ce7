-- How permits, grants and tickets end of themselves; see _permits.lua and _line.lua for the keys.
local TAKE_UP = tonumber(ARGV[2])

local function read(at, name)
    local record = call("HGET", at.ledger, "of:" .. name)
    local ends = record and tonumber(call("ZSCORE", at.holders, name))
    if ends then
        local permit = parsed(record)
        permit.ends = ends
        return permit
    end
end

local function maker_of(ticket)
    return "by:" .. ticket:sub(22)
end

local function ticket_info(at, ticket)
    local packed = call("HGET", at.tickets, ticket)
    return packed and cmsgpack.unpack(packed)
end

-- Unless another one has it by now: a sender may use a task id again.
local function forget_name(at, ticket)
    local name = ticket_info(at, ticket).name
    if call("HGET", NAMES, name) == at.name .. "\n" .. ticket then
        call("HDEL", NAMES, name)
    end
end

local function leave(at, ticket)
    call("ZREM", at.waiters, ticket)
    call("ZREM", at.parked, ticket)
    call("ZREM", at.aside, ticket)
    call("ZREM", at.due, ticket)
    if call("HDEL", at.payloads, ticket) == 1 then
        call("ZREM", at.outbox, ticket)
        forget_name(at, ticket)
    end
    call("HDEL", at.tickets, ticket, maker_of(ticket))
end

local function is_parked(at, ticket)
    return call("ZSCORE", at.parked, ticket) or call("ZSCORE", at.aside, ticket)
end

-- The wait of a parked message is over: it must be sent without a permit, again and again until it was.
local function end_wait(at, ticket)
    local granted_until = call("ZSCORE", at.holders, ticket)
    if granted_until then -- on its way; if that comes to nothing, its wait ends then, before the next grant
        call("ZADD", at.due, granted_until, ticket)
        return
    end
    call("ZREM", at.parked, ticket)
    call("ZREM", at.aside, ticket)
    call("ZADD", at.outbox, 0, ticket)
    forget_name(at, ticket)
    use(at, now)
    call("ZADD", at.due, now + TAKE_UP, ticket)
end

-- A permit that is kept can lie further ahead, by the mean time that permits are held.
local function cut(at)
    local last = call("ZRANGE", at.holders, -1, -1, "WITHSCORES")[2]
    if not last or tonumber(last) <= FURTHEST then
        return
    end
    local mean = tonumber(call("HGET", at.ledger, "mean")) or 1000000
    for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, FURTHEST + 1, "+inf")) do
        local mine = read(at, name)
        local furthest = mine and mine.by == "k" and FURTHEST + mean or FURTHEST
        if mine and mine.ends > furthest then
            call("ZADD", at.holders, furthest, name)
        end
    end
end

-- A grant whose message was not even sent goes back to its place; a holder whose lease ended is dead; who did not
-- come back when it was due is forgotten. In the grace the server was away, so nobody could renew or come back.
local function drop(at)
    at.quiet = call("EXISTS", at.tickets) == 0 -- nobody waits: most calls can do without the line
    cut(at)
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
        else -- it was sent, or whoever called is gone
            leave(at, name)
        end
    end
    if at.quiet then
        return
    end
    for _, ticket in ipairs(call("ZRANGEBYSCORE", at.due, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        if call("HEXISTS", at.payloads, ticket) == 1 then
            end_wait(at, ticket)
        else
            leave(at, ticket)
        end
    end
end
