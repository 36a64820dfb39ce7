-- How permits, grants and tickets end; see _permits.lua and _line.lua for the keys.
local TAKE_UP = tonumber(ARGV[2])
local AT_ONCE = 50 -- overdue entries ended in one call: the server must not stand still for a crowd

local function parsed(record)
    local token, since, weight, by = record:match("^(%d+) (%d+) (%d+) (.*)$")
    return {token = tonumber(token), since = tonumber(since), weight = tonumber(weight), by = by}
end

local function read(at, name)
    local record = call("HGET", at.ledger, "of:" .. name)
    local ends = record and tonumber(call("ZSCORE", at.holders, name))
    if ends then
        local permit = parsed(record)
        permit.ends = ends
        return permit
    end
end

-- Answers whether it was there.
local function erase(at, name, weight)
    call("HDEL", at.ledger, "of:" .. name)
    if weight ~= 1 then
        call("HDEL", at.weights, name)
    end
    return call("ZREM", at.holders, name) == 1
end

-- Remembered for one lease: after a lease without a renewal the holder itself takes its permit for lost,
-- so no honest renewal or acquire is on its way any more.
local function bury(at, holder)
    local old = call("ZRANGEBYSCORE", at.released, "-inf", now, "LIMIT", 0, AT_ONCE)
    if #old > 0 then
        call("ZREM", at.released, unpack(old))
    end
    call("ZADD", at.released, now + LEASE, holder)
    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))
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
    if not call("ZSCORE", at.holders, ticket) then -- else it is granted, and on its way
        call("ZREM", at.parked, ticket)
        call("ZREM", at.aside, ticket)
        call("ZADD", at.outbox, 0, ticket)
        forget_name(at, ticket)
        use(at, now)
    end
    call("ZADD", at.due, now + TAKE_UP, ticket)
end

-- A grant whose message was not even sent goes back to its place; a holder whose lease ended is dead; who did not
-- come back when it was due is forgotten. In the grace the server was away, so nobody could renew or come back.
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
