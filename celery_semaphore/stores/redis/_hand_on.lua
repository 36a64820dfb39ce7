-- What is free goes to whoever was parked first. The head is tried on all its claims in this instant; refused
-- by another claim it moves to that one's line; one that this resource cannot fit blocks it, or heavy ones
-- would starve; one that no limit could fit is stepped over.
--
-- Who comes back by itself and stands before the head would find every permit taken, each time. So one is kept for
-- it, from the mean time that permits were held before it is due until as long after: then it idles no longer than
-- it would be held. If it does not come, for its message stands in a queue or is gone, the permit goes to the next
-- and its ticket is dropped; it keeps its place all the same, and once it has asked again it is due soon. While
-- nobody is parked nothing is kept, and a free permit goes to whoever asks.
local EARLY, LATE = 100000, 1000000 -- at least: the shortest delay, and the way of a message through a worker
local MOST = 100 -- tries in one call; the caller asks again for the rest
local tries, undeclared, again = 0, {}, false
local by_name = {}
for _, at in ipairs(resources) do
    by_name[at.name] = at
end

-- The claims of a ticket, where it stands first; short of those whose keys this call did not declare.
local function claims_of(info, home)
    local claims = {}
    for _, name in ipairs(info.names) do
        local claim = {at = by_name[name], weight = info.weights[name], limit = info.limits[name]}
        if claim.at then
            table.insert(claims, name == home.name and 1 or #claims + 1, claim)
        end
    end
    return claims, #claims < #info.names
end

local GRANT_END = now + GRANT_S * 1000000 -- of one that a session must ask for

local function grant(ticket, info, claims, home, kept_until)
    local nonce, rank = nonce_of(ticket), ticket:sub(1, RANK)
    local permit = {token = new_token(claims), since = now, by = kept_until and "k" or "g", rank = rank}
    local parked = call("HEXISTS", home.payloads, nonce) == 1
    local asked_for = not parked and info.session
    local ends = kept_until or asked_for and GRANT_END or now + TAKE_UP
    for _, claim in ipairs(claims) do
        write(claim.at, GRANT .. nonce, claim.weight, permit, ends)
        use(claim.at, math.min(ends, now + LEASE))
    end
    call("ZREM", kept_until and home.waiters or home.parked, ticket)
    for n = 2, #claims do -- it may stand there as well, by what it asked once
        step_out(claims[n].at, ticket_of(claims[n].at, nonce))
    end
    if asked_for then
        tell(info.session, nonce, ends)
    elseif parked then
        call("ZADD", home.outbox, permit.token, nonce)
        use(home, now)
    end
end

-- Who comes back by itself and can be expected now, the first in line last.
local function expected(home)
    local coming = {}
    if call("EXISTS", home.waiters) == 0 then
        return coming
    end
    local mean = tonumber(known(home).mean) or 1000000
    local early, late = math.max(mean, EARLY), math.min(math.max(mean, LATE), TAKE_UP)
    local from, to = string.format("(%.0f", now - late + LEASE), now + early + LEASE
    local due = call("ZRANGEBYSCORE", home.due, from, to, "WITHSCORES", "LIMIT", 0, MOST)
    for n = 1, #due, 2 do
        local ticket = ticket_of(home, due[n])
        if ticket and call("ZSCORE", home.waiters, ticket) and not session_of(home, due[n]) then
            table.insert(coming, {ticket = ticket, kept_until = due[n + 1] - LEASE + late})
        end
    end
    table.sort(coming, function(a, b) return a.ticket > b.ticket end)
    return coming
end

local function elsewhere(claims, ticket)
    for n = 2, #claims do
        if refusal(claims[n], ticket) then
            return claims[n].at
        end
    end
end

-- Tries whoever is next; answers whether to go on.
local function try(home, coming)
    local head, more = first(home, "+", limit_of(home))
    again = again or more
    if not head or more then
        return false
    end
    local comes = coming[#coming] and coming[#coming].ticket < head and table.remove(coming)
    local ticket = comes and comes.ticket or head
    local info = wait_info(home, nonce_of(ticket))
    local claims, short = claims_of(info, home)
    local why = refusal(claims[1], ticket)
    if why then
        return why == "unsatisfiable"
    elseif short then -- the caller asks again with all of them; until then the head blocks newcomers
        undeclared = info.names
        return false
    end
    local other = elsewhere(claims, ticket)
    if not other then
        grant(ticket, info, claims, home, comes and comes.kept_until)
    else
        local payload = call("HGET", home.payloads, nonce_of(ticket))
        leave(home, nonce_of(ticket))
        stand(other, ticket, info, payload)
        use(other)
    end
    return true
end

local function hand_on(home)
    if home.quiet then
        return
    elseif limit_of(home) == 0 then
        local _, _, more = first_awake(home, "+")
        again = again or more or false
        return
    end
    local coming = expected(home)
    while try(home, coming) do
        tries = tries + 1
        if tries >= MOST then
            again = true
            return
        end
    end
end

local function answer_hand_on()
    for _, at in ipairs(resources) do
        hand_on(at)
    end
    -- The caller may die before it asks for the rest: then whoever reaps next finds it.
    local look = (again or #undeclared > 0) and now or in_grace and grace_until or nil
    local outgoing = {}
    for _, at in ipairs(resources) do
        settle(at, look)
        if call("EXISTS", at.outbox) == 1 then
            table.insert(outgoing, at.name)
        end
    end
    return {epoch, again and 1 or 0, undeclared, outgoing}
end
