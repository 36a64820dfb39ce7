-- How permits, grants and tickets end; see _permits.lua and _line.lua for the keys.
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
-- so no honest renewal or acquire is on its way any more. Answers whether it is the first time.
local function bury(at, holder)
    local old = call("ZRANGEBYSCORE", at.released, "-inf", now, "LIMIT", 0, AT_ONCE)
    if #old > 0 then
        call("ZREM", at.released, unpack(old))
    end
    local new = call("ZADD", at.released, now + LEASE, holder)
    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))
    return new == 1
end

local function maker_of(ticket)
    return "by:" .. ticket:sub(22)
end

local function leave(at, ticket)
    call("ZREM", at.waiters, ticket)
    call("ZREM", at.parked, ticket)
    call("ZREM", at.due, ticket)
    call("HDEL", at.payloads, ticket)
    call("HDEL", at.tickets, ticket, maker_of(ticket))
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
