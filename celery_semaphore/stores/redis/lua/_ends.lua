-- End what is overdue: permits, grants and waits; see _permits.lua and _line.lua for the keys.
local TAKE_UP = tonumber(ARGV[2])
local RANK = #"255.1700000000000000" -- length of a ticket's rank: its urgency and its place

local function read(at, name)
    local record = call("HGET", at.ledger, "of:" .. name)
    local ends = record and tonumber(call("ZSCORE", at.holders, name))
    if ends then
        local permit = parsed(record)
        permit.ends = ends
        return permit
    end
end

-- Delete the grant of this wait.
local function take_back(at, nonce)
    erase(at, GRANT .. nonce, read(at, GRANT .. nonce))
end

-- Return the ticket of a wait with its present rank, or nil.
local function ticket_of(at, nonce)
    local record = call("HGET", at.tickets, nonce)
    return record and record:sub(1, RANK) .. "." .. nonce
end

-- Return the record of a wait, and its ticket; or nil.
local function wait_info(at, nonce)
    local record = call("HGET", at.tickets, nonce)
    if record then
        return cmsgpack.unpack(record:sub(RANK + 1)), record:sub(1, RANK) .. "." .. nonce
    end
end

-- Delete the name of a parked message, unless another wait has it by now: a sender may reuse a task id.
local function forget_name(at, name, nonce)
    if name and call("HGET", NAMES, name) == at.name .. "\n" .. nonce then
        call("HDEL", NAMES, name)
    end
end

local function is_awake(session)
    local asked = tonumber(call("ZSCORE", SESSIONS, session) or 0)
    return asked > now - LEASE
end

-- Set or delete (`ends` is nil) a grant in the session's list; each change also deletes overdue ones.
local function tell(session, nonce, ends)
    local known = call("HGET", GRANTS, session)
    local grants = {[nonce] = ends}
    for other, until_when in pairs(known and cmsgpack.unpack(known) or {}) do
        if other ~= nonce and until_when > now then
            grants[other] = until_when
        end
    end
    if next(grants) then
        call("HSET", GRANTS, session, cmsgpack.pack(grants))
    elseif known then
        call("HDEL", GRANTS, session)
    end
end

local function step_out(at, ticket)
    for _, line in ipairs(ticket and {at.waiters, at.parked, at.aside} or {}) do
        call("ZREM", line, ticket)
    end
end

-- E5, E7: put a wait in transit, where it keeps its place for a while and blocks no other.
local function send_off(at, ticket, info)
    local nonce = ticket:sub(RANK + 2)
    info.due = now
    step_out(at, ticket)
    call("ZADD", at.waiters, 0, ticket)
    call("ZADD", at.due, now + math.max(LEASE, info.keeps), nonce)
    call("HSET", at.tickets, nonce, ticket:sub(1, RANK) .. cmsgpack.pack(info))
end

local function dequeue(at, nonce)
    local info, ticket = wait_info(at, nonce)
    step_out(at, ticket)
    call("ZREM", at.due, nonce)
    if call("HDEL", at.payloads, nonce) == 1 then
        call("ZREM", at.outbox, nonce)
        forget_name(at, info.name, nonce)
    end
    if info and info.session then
        tell(info.session, nonce)
    end
    call("HDEL", at.tickets, nonce)
end

-- E7: put the wait in transit, for its session did not take up the grant. If the session did not ask since the grant,
-- or for as long as a grant lasts, it sleeps, and with it all its waits.
local function not_taken_up(at, nonce, since)
    local info, ticket = wait_info(at, nonce)
    if tonumber(call("ZSCORE", SESSIONS, info.session) or 0) <= math.max(since, now - GRANT_S * 1000000) then
        call("ZREM", SESSIONS, info.session)
    end
    tell(info.session, nonce)
    send_off(at, ticket, info)
end

local function session_of(at, nonce)
    local info = wait_info(at, nonce)
    return info and info.session
end

local function is_parked(at, nonce)
    local ticket = ticket_of(at, nonce)
    return ticket and (call("ZSCORE", at.parked, ticket) or call("ZSCORE", at.aside, ticket))
end

-- E10, E12: end the wait of a parked message: it must be sent without a permit, again until the broker has it.
local function end_wait(at, nonce)
    local granted_until = call("ZSCORE", at.holders, GRANT .. nonce)
    if granted_until then -- the message is on its way; if the grant ends unused, the wait ends with it
        call("ZADD", at.due, granted_until, nonce)
        return
    end
    local info, ticket = wait_info(at, nonce)
    step_out(at, ticket)
    call("ZADD", at.outbox, 0, nonce)
    forget_name(at, info.name, nonce)
    mark_in_use(at, now)
    call("ZADD", at.due, now + TAKE_UP, nonce)
end

-- Cut leases that end later than any can: the server's clock stepped back.
local function cut(at)
    for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, furthest() + 1, "+inf")) do
        call("ZADD", at.holders, furthest(), name)
    end
end

-- End what is overdue on a resource. A holder with an expired lease is dead, and gets a tombstone. The wait of a grant
-- returns to its place if its message was not sent, or is in transit if its session did not take the grant up (E7). A
-- wait in transit is deleted when its time is over (E13). Nothing ends during the grace: the server was away, so no
-- holder could renew and no session could ask.
local function drop(at)
    at.no_waiters = call("EXISTS", at.tickets) == 0 -- most calls find no wait, and can skip the line
    cut(at)
    if in_grace then
        return
    end
    for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        local mine, nonce = read(at, name), name:sub(#GRANT + 1)
        erase(at, name, mine)
        if not mine or mine.by == "" then
            mark_released(at, name)
        elseif call("HEXISTS", at.payloads, nonce) == 1 then
            call("ZADD", at.parked, 0, ticket_of(at, nonce))
        elseif session_of(at, nonce) then
            not_taken_up(at, nonce, mine.since)
        else -- its message was sent, or it is a record from earlier claims
            dequeue(at, nonce)
        end
    end
    if at.no_waiters then
        return
    end
    for _, nonce in ipairs(call("ZRANGEBYSCORE", at.due, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        if call("HEXISTS", at.payloads, nonce) == 1 then
            end_wait(at, nonce)
        else
            dequeue(at, nonce)
        end
    end
end
