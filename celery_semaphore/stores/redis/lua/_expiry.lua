-- End what is overdue: permits, grants and waits; see _permits.lua and _line.lua for the keys.
local expiry = {}

-- E7: put the wait in transit, for its session did not take up the grant. If the session did not ask since the grant,
-- or for as long as a grant lasts, it sleeps, and with it all its waits.
local function not_taken_up(at, nonce, since)
    local info, ticket = waits.info(at, nonce)
    if tonumber(call("ZSCORE", SESSIONS, info.session) or 0) <= math.max(since, now - GRANT_S * 1000000) then
        sessions.forget(info.session)
    end
    sessions.tell(info.session, at, nonce)
    waits.send_off(at, ticket, info)
end

local function session_of(at, nonce)
    local info = waits.info(at, nonce)
    return info and info.session
end

-- Cut leases that end later than any can: the server's clock stepped back.
local function cut(at)
    for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, furthest() + 1, "+inf")) do
        call("ZADD", at.holders, furthest(), name)
    end
end

local function end_one(at, name, mine)
    local nonce = name:sub(#GRANT + 1)
    records.erase(at, name, mine)
    if not mine or mine.by == "" then
        records.mark_released(at, name)
    elseif call("HEXISTS", at.payloads, nonce) == 1 then
        call("ZADD", at.line, 0, waits.ticket_of(at, nonce))
    elseif session_of(at, nonce) then
        not_taken_up(at, nonce, mine.since)
    else -- its message was sent
        waits.dequeue(at, nonce)
    end
end

-- End what is overdue on a resource. A holder with an expired lease is dead, and gets a tombstone. The wait of a grant
-- returns to its place if its message was not sent, or is in transit if its session did not take the grant up (E7). A
-- wait in transit is deleted when its time is over (E13). Nothing ends during the grace, and no permit too early after
-- a silence (A17): behind more than AT_ONCE of these, grants end as late.
function expiry.end_overdue(at)
    at.no_waiters = call("EXISTS", at.tickets) == 0 -- most calls find no wait, and can skip the line
    cut(at)
    kept_room.end_overdue(at)
    if in_grace then
        return
    end
    for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        local mine = holders.read(at, name)
        if not mine or is_over(mine.ends, mine.by ~= "") then
            end_one(at, name, mine)
        end
    end
    if at.no_waiters then
        return
    end
    for _, nonce in ipairs(call("ZRANGEBYSCORE", at.due, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        if call("HEXISTS", at.payloads, nonce) == 1 then
            waits.end_parked(at, nonce)
        else
            waits.dequeue(at, nonce)
        end
    end
end
