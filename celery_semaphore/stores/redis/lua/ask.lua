-- Return the grants of a session, which is awake from now on: rows Q1 to Q5 of docs/maintain/architecture.md.
--   arg 1 session  2 number of grants that are being taken up  3 number of resources that their waits claim, the first
--       ones, then their nonces, then the nonces of waits to forecast
-- Returns {epoch, 1 if it was not awake, sessions that are awake, {nonces with a grant},
--          {nonce, microseconds until it can expect a permit}...}
even_if_full()
local session, begun, claimed = arg(1), tonumber(arg(2)), tonumber(arg(3))
local slept = not sessions.is_awake(session)
call("ZADD", SESSIONS, now, session) -- Q2
call("ZREMRANGEBYSCORE", SESSIONS, "-inf", now - LEASE)
call("ZREMRANGEBYSCORE", SESSIONS, furthest(), "+inf")
local told = call("HGET", GRANTS, session)
local grants = told and cmsgpack.unpack(told) or {}

local granted, is_granted, expected = {}, {}, {}
for key, ends in pairs(grants) do -- Q3
    local nonce = sessions.nonce_in(key)
    if ends > now and not is_granted[nonce] then
        is_granted[nonce] = true
        table.insert(granted, nonce)
    end
end

local function prolong(nonce)
    local ends = now + GRANT_S * 1000000
    for n = 1, claimed do
        local at = resources[n]
        if call("ZSCORE", at.holders, GRANT .. nonce) then
            call("ZADD", at.holders, ends, GRANT .. nonce)
            local key = sessions.key_of(at, nonce)
            grants[key] = grants[key] and ends -- the list has only the resource with the record of the wait
        end
    end
end

for n = 1, begun do -- Q4
    if is_granted[arg(3 + n)] then
        prolong(arg(3 + n))
    end
end
if begun > 0 and #granted > 0 then
    call("HSET", GRANTS, session, cmsgpack.pack(grants))
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

for n = given + 4 + begun, #ARGV do -- Q5
    for _, at in ipairs(resources) do
        local ticket, limit = waits.ticket_of(at, ARGV[n]), permits.limit_of(at)
        if ticket and (limit or 0) > 0 and in_line(at, ticket) then
            local turn = (line.position(at, ticket) + 1) * held_for(at) / limit
            table.insert(expected, {ARGV[n], math.floor(turn)})
        end
    end
end
return {epoch, slept and 1 or 0, call("ZCARD", SESSIONS), granted, expected}
