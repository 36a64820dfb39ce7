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
    for _, claim in ipairs(claims) do
        write(claim.at, holder, claim.weight, permit, now + LEASE)
        use(claim.at)
    end
end

-- Not a holder that was released or died since, not one that the present memory once knew, and not above the limit.
local function forgotten()
    if not in_grace or epoch_then == epoch then
        return false
    end
    for _, claim in ipairs(claims) do
        local others = occupied(claim.at) - (read(claim.at, holder) and claim.weight or 0)
        if buried(claim.at, holder) or others + claim.weight > limit_of(claim.at, claim.limit) then
            return false
        end
    end
    return true
end

local part, complete = held(claims, holder)
if complete then
    extend()
    return {epoch, "ok"}
elseif forgotten() then
    extend()
    return {epoch, "restored"}
end
if part then
    end_part(claims, holder)
    for _, at in ipairs(resources) do
        settle(at)
    end
end
return {epoch, "lost"}
