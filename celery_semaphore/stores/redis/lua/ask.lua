-- Return the grants of a session, which is awake from now on: rows Q1 to Q5 of docs/maintain/architecture.md.
--   arg 1 session  2 how many grants it can use, or empty  3 number of grants that are being taken up  4 number of
--       resources that their waits claim, the first ones, then their nonces, then the nonces of waits to forecast
-- Returns {epoch, 1 if it was not awake, sessions that are awake, {nonces with a grant},
--          {nonce, microseconds until it can expect a permit}...}
even_if_full()
local session, room, begun, claimed = arg(1), arg(2), tonumber(arg(3)), tonumber(arg(4))
local slept, expected = not sessions.is_awake(session), {}
call("ZADD", SESSIONS, now, session) -- Q2
if room == "" then
    call("HDEL", ROOMS, session)
else
    call("HSET", ROOMS, session, room)
end
for _, range in ipairs({{"-inf", now - LEASE}, {furthest(), "+inf"}}) do
    for _, other in ipairs(call("ZRANGEBYSCORE", SESSIONS, range[1], range[2])) do
        sessions.forget(other)
    end
end
sessions.tidy()
local granted, is_granted = sessions.granted_to(session) -- Q3

local function prolong(nonce)
    local ends = now + GRANT_S * 1000000
    for n = 1, claimed do
        local at = resources[n]
        if call("ZSCORE", at.holders, GRANT .. nonce) then
            call("ZADD", at.holders, ends, GRANT .. nonce)
            sessions.prolong(session, at, nonce, ends)
        end
    end
end

for n = 1, begun do -- Q4
    if is_granted[arg(4 + n)] then
        prolong(arg(4 + n))
    end
end

-- Return how long a permit is held, for forecasts: the newest hold counts if it is shorter than the mean. A session
-- that expects too long a wait lets permits idle; one that expects too short a wait only asks more often.
local function held_for(at)
    local mean, latest = unpack(call("HMGET", at.ledger, "mean", "latest"))
    return math.min(tonumber(mean) or 1000000, tonumber(latest or mean) or 1000000)
end

local function in_line(at, ticket)
    return call("ZSCORE", at.line, ticket) or call("ZSCORE", at.transit, ticket) or call("ZSCORE", at.aside, ticket)
end

for n = given + 5 + begun, #ARGV do -- Q5
    for _, at in ipairs(resources) do
        local ticket, limit = waits.ticket_of(at, ARGV[n]), permits.limit_of(at)
        if ticket and (limit or 0) > 0 and in_line(at, ticket) then
            local turn = (line.position(at, ticket) + 1) * held_for(at) / limit
            table.insert(expected, {ARGV[n], math.floor(turn)})
        end
    end
end
return {epoch, slept and 1 or 0, call("ZCARD", SESSIONS), granted, expected}
