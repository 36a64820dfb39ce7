-- Extend one permit's lease on all declared resources; put back only what the store forgot.
--   arg 1 holder  2 token  3 since  4 epoch it was written into, then limit and weight of each resource
-- Returns {epoch, "ok" | "restored" | "lost"}
local holder, epoch_then = arg(1), tonumber(arg(4))
local permit = {token = tonumber(arg(2)), since = tonumber(arg(3)), by = ""}
local claims = {}
for n, at in ipairs(resources) do
    claims[n] = {at = at, limit = tonumber(arg(3 + 2 * n)), weight = tonumber(arg(4 + 2 * n))}
end

local function extend()
    even_if_full()
    for _, claim in ipairs(claims) do
        write(claim.at, holder, claim.weight, permit, now + LEASE, claim.restored)
        use(claim.at)
    end
end

-- The ticket from which the holder took this very permit up, if that is all the store forgot: a replica lags.
local function its_ticket()
    local ticket = call("HGET", resources[1].ledger, "for:" .. arg(2))
    return ticket and read(resources[1], ticket) and ticket
end

-- What was handed to it is the holder's, and so is its message, which was delivered.
local function take_up(ticket)
    for _, claim in ipairs(claims) do
        erase(claim.at, ticket)
        if call("HEXISTS", claim.at.tickets, ticket) == 1 then
            leave(claim.at, ticket)
        end
    end
end

-- Not a holder that was released or died since, not one that the present memory once knew, and not above the limit.
local function forgotten(ticket)
    for _, claim in ipairs(claims) do
        local mine = read(claim.at, holder) or ticket and read(claim.at, ticket)
        claim.restored = not mine or mine.restored
        if buried(claim.at, holder) or not has_room_for_living(claim, holder, ticket) then
            return false
        end
    end
    return true
end

local part, complete = held(claims, holder)
if complete then
    extend()
    return {epoch, "ok"}
elseif in_grace and epoch_then ~= epoch then
    local ticket = its_ticket()
    if forgotten(ticket) then
        if ticket then
            take_up(ticket)
        end
        extend()
        return {epoch, "restored"}
    end
end
if part then
    end_part(claims, holder)
    for _, at in ipairs(resources) do
        settle(at)
    end
end
return {epoch, "lost"}
