-- The ways an acquire can end, over its own arguments; see acquire.lua for these.
local holder, kind, timeout = arg(1), arg(2), tonumber(arg(8))
local shortest, longest, jitter = tonumber(arg(5)), tonumber(arg(6)), tonumber(arg(7))
local claims, asked = {}, {claims = arg(9), names = {}, weights = {}, limits = {}}
for n, at in ipairs(resources) do
    local limit, weight = tonumber(arg(8 + 2 * n)), tonumber(arg(9 + 2 * n))
    claims[n] = {at = at, limit = limit, weight = weight}
    asked.names[n], asked.weights[at.name], asked.limits[at.name] = at.name, weight, limit
    drop(at)
    if meta(at).declared ~= limit then -- the newest acquire decides, unless an operator did
        at.declared = limit
        call("HSET", at.meta, "limit", limit)
    end
end

-- The wait's own ticket, or the one this holder made in a call whose answer was lost, or a new one.
local function its_ticket()
    local ticket = arg(3)
    if ticket:match("^%d%d%d%.%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%..") then
        return ticket
    end
    for _, at in ipairs(resources) do
        local made = not at.quiet and call("HGET", at.tickets, "by:" .. holder)
        if made then
            return made
        end
    end
    local priority = math.max(0, math.min(255, tonumber(arg(4))))
    return string.format("%03d.%016.0f.", 255 - priority, now) .. holder, "new"
end

local ticket, new = its_ticket()

-- Out of whatever line it stands in; answers the message it had parked.
local function forget_ticket()
    local payload
    for _, at in ipairs(resources) do
        if call("HEXISTS", at.tickets, ticket) == 1 then
            payload = call("HGET", at.payloads, ticket)
            leave(at, ticket)
        end
    end
    return payload
end

local function admit(name, permit)
    for _, claim in ipairs(claims) do
        if name then
            erase(claim.at, name)
        end
        write(claim.at, holder, claim.weight, permit, now + LEASE)
        if claim.occupied == 0 or name then -- else its holders keep it in use
            use(claim.at)
        end
    end
    if not new then
        forget_ticket()
    end
    return {epoch, "permit", permit.token, permit.since, now + LEASE}
end

-- When a permit can be expected here: its turn, by the mean time that permits were held lately.
local function delay(claim, reason, turn, left)
    local seconds = jitter * (turn + 1) / claim.limit * (claim.at.mean or 1000000)
    if reason == "paused" or reason == "unsatisfiable" then
        seconds = LEASE
    end
    seconds = math.max(shortest, math.min(longest, seconds))
    if reason == "recovering" then
        seconds = math.max(seconds, grace_until - now)
    end
    return math.floor(math.min(seconds, left))
end

local function refuse(n, reason)
    local claim, waited = claims[n], math.max(0, now - place_of(ticket))
    local turn, left = position(claim.at, ticket), timeout and timeout - waited or math.huge
    local retry = delay(claim, reason, turn, left)
    if kind == "" or reason == "released" then
        ticket = ""
    elseif left <= 0 then
        forget_ticket()
        ticket, reason, retry = "", "timed_out", 0
    else
        local payload = forget_ticket() -- where another claim refused before
        asked.kind, asked.due = kind, now + retry
        stand(claim.at, ticket, asked, kind == "park" and payload)
    end
    for _, at in ipairs(resources) do
        settle(at)
    end
    return {epoch, reason, n, claim.limit, claim.occupied, ticket, turn, retry, waited}
end
