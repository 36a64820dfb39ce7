-- Grant the holder a permit on all declared resources, or refuse it and keep its place in line.
--   arg 1 holder  2 ticket from an earlier refusal, or empty  3 how it waits, see _own_wait.lua
--       4 claims, as the caller wrote them  5 its message, see _messages.lua
--       6 its process, which declares the limits
--       then limit and weight of each resource; the last key is the record of the task's messages, or none
-- Returns "epoch token since ends", or
--   {epoch, reason, n of the resource, limit, occupied, ticket, position, retry after, waited,
--    of a weight above the limit in force the process that declared that limit, if no operator set it,
--    weight of the room that waits before it keep there}, or
--   {epoch, "other claims", those of the wait, as its caller wrote them, its ticket}
-- Most calls end here: a new holder, no wait, and room. All other calls go on in acquire_slow_path.lua.
local holder, ticket = arg(1), arg(2)
local messages_key, claims, simple = KEYS[COMMON + 11 * #resources + 1], {}, ticket == "" and not arg(5):find(" ")
for n, at in ipairs(resources) do
    local own = tonumber(arg(5 + 2 * n)) -- the limit that it declares, or none
    local claim = {at = at, own = own, limit = own, weight = tonumber(arg(6 + 2 * n))}
    claims[n] = claim
    permits.known(at, holder)
    permits.declare(at, own, arg(6)) -- A4
    at.plain = simple and not at.kept and call("EXISTS", at.tickets, at.weights, messages_key or at.tickets) == 0
    simple = at.plain and not at.record and not permits.was_released(at, holder) and not permits.no_room(claim)
end

local function admit(permit)
    for _, claim in ipairs(claims) do
        permits.write(claim.at, holder, claim.weight, permit, LEASE_END)
        if (claim.occupied or 0) == 0 then -- else it is marked already
            index.mark_in_use(claim.at)
        end
    end
    return EPOCH_WRITTEN .. " " .. permit.stamp .. " " .. LEASE_END
end

if simple then -- A14, E9
    return admit({token = permits.new_token(claims), since = now, by = ""})
end
