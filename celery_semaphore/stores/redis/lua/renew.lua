-- Extend the leases of permits on the declared resources; restore only permits that the store lost.
--   arg 1 how many, then of each: holder, token, since, epoch it was written in, limit and weight of each resource
-- Returns {epoch, "ok", "restored" or "lost" for each, with blanks between them}
local WORDS = 4 + 2 * #resources -- of one permit

local function permit_of(n)
    local first = 2 + (n - 1) * WORDS
    local found = {holder = arg(first), epoch = tonumber(arg(first + 3)), claims = {}}
    found.permit = {token = tonumber(arg(first + 1)), since = tonumber(arg(first + 2)), by = ""}
    for k, at in ipairs(resources) do
        local limit, weight = tonumber(arg(first + 2 + 2 * k)), tonumber(arg(first + 3 + 2 * k))
        found.claims[k] = {at = at, own = limit, weight = weight}
    end
    return found
end

local function extend(one)
    even_if_full()
    local lately = permits_ended_by < grace_until + slowest -- A21
    for _, claim in ipairs(one.claims) do
        permits.write(claim.at, one.holder, claim.weight, one.permit, LEASE_END, lately and claim.restored)
        index.mark_in_use(claim.at)
        holding.read_again(claim.at, one.holder)
    end
end

-- Return the grant of this permit, if the store lost only its take-up: a replica lags.
local function its_grant(one)
    local at = one.claims[1].at
    local grant = call("HGET", at.ledger, string.format("for:%.0f", one.permit.token))
    return grant and holders.read(at, grant) and grant
end

-- Delete the grant, which became the holder's permit, and its wait, for its message was delivered.
local function take_up(one, grant)
    local nonce = grant:sub(#GRANT + 1)
    for _, claim in ipairs(one.claims) do
        holders.take_back(claim.at, nonce)
        holding.read_again(claim.at, grant)
        waits.dequeue(claim.at, nonce)
    end
end

-- Return whether the store lost this permit and may restore it: not of a holder with a tombstone, and not above the
-- limit.
local function forgotten(one, grant)
    for _, claim in ipairs(one.claims) do
        local mine = holders.read(claim.at, one.holder) or grant and holders.read(claim.at, grant)
        claim.restored = not mine or mine.restored
        if permits.was_released(claim.at, one.holder) or not holding.has_room_for_living(claim, one.holder, grant) then
            return false
        end
    end
    return true
end

local function renew(one)
    local part, complete = holding.held(one.claims, one.holder)
    if complete then
        extend(one)
        return "ok"
    elseif in_grace and one.epoch ~= epoch then
        local grant = its_grant(one)
        if forgotten(one, grant) then
            if grant then
                take_up(one, grant)
            end
            extend(one)
            return "restored"
        end
    end
    if part then
        holding.end_part(one.claims, one.holder)
        for _, at in ipairs(resources) do
            holding.read_again(at, one.holder)
            holders.update_index(at)
        end
    end
    return "lost"
end

local became = {}
for n = 1, tonumber(arg(1)) do
    became[n] = renew(permit_of(n))
end
return {epoch, table.concat(became, " ")}
