-- What is free goes to whoever was parked first. The head is tried on all its claims in this instant; refused
-- by another claim it moves to that one's line; one that this resource cannot fit blocks it, or heavy ones
-- would starve; one that no limit could fit is stepped over.
local MOST = 100 -- grants in one call; the caller asks again for the rest
local CHANNEL = EPOCH:match("^(.*):epoch$") .. ":granted:"
local granted, undeclared, again = 0, {}, false
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

local function grant(ticket, claims, home)
    local permit = {token = new_token(claims), since = now, by = "g"}
    for _, claim in ipairs(claims) do
        write(claim.at, ticket, claim.weight, permit, now + TAKE_UP)
        use(claim.at, now + math.min(TAKE_UP, LEASE))
    end
    call("ZREM", home.parked, ticket)
    if call("HEXISTS", home.payloads, ticket) == 1 then
        call("ZADD", home.outbox, 0, ticket)
        use(home, now)
    else
        call("PUBLISH", CHANNEL .. ticket, "")
    end
end

local function elsewhere(claims, ticket)
    for n = 2, #claims do
        if refusal(claims[n], ticket) then
            return claims[n].at
        end
    end
end

-- Tries the head that stands behind so many stepped over; answers how many are stepped over now, nil at the end.
local function try(home, skipped)
    local ticket = call("ZRANGE", home.parked, skipped, skipped)[1]
    if not ticket then
        return nil
    end
    local info = ticket_info(home, ticket)
    local claims, short = claims_of(info, home)
    local why = refusal(claims[1], ticket)
    if why == "unsatisfiable" then
        return skipped + 1
    elseif why then
        return nil
    elseif short then -- the caller asks again with all of them; until then the head blocks newcomers
        undeclared = info.names
        return nil
    end
    local other = elsewhere(claims, ticket)
    if other then
        local payload = call("HGET", home.payloads, ticket)
        leave(home, ticket)
        stand(other, ticket, info, payload)
        use(other)
    else
        grant(ticket, claims, home)
        granted = granted + 1
    end
    return skipped
end

local function hand_on(home)
    local skipped, tries = not home.quiet and 0, 0
    while skipped and tries < 1000 do
        again = granted >= MOST
        if again then
            return
        end
        skipped, tries = try(home, skipped), tries + 1
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
