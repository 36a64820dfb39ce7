-- Give a parked ticket its message; from now on it can be granted, perhaps at once.
--   arg 1 ticket  2 payload  3 its name, or empty  4 microseconds until its wait ends, or empty
--       5 claims, as the caller wrote them, then limit and weight of each resource
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send}
local ticket, payload, ends_in = arg(1), arg(2), tonumber(arg(4))
local home, asked = resources[1], {kind = "park", due = now, claims = arg(5), names = {}, weights = {}, limits = {}}
asked.name, asked.ends = arg(3), ends_in and now + ends_in
local claims = {}
for n, at in ipairs(resources) do
    claims[n] = {at = at, weight = tonumber(arg(5 + 2 * n))}
    asked.names[n], asked.limits[at.name] = at.name, tonumber(arg(4 + 2 * n))
    asked.weights[at.name] = claims[n].weight
    drop(at)
end
ticket = known_as(ticket)
for _, at in ipairs(resources) do
    home = call("HEXISTS", at.tickets, ticket) == 1 and at or home
end
if call("HEXISTS", home.payloads, ticket) == 1 then -- by the name that it had its message would still be found
    forget_name(home, ticket)
end
-- A ticket that was dropped meanwhile comes back with its place: its message must not be lost.
stand(home, ticket, asked, payload)
-- A grant that has ended at one of its claims, or is for another weight, is none: others may have had room since.
local granted, whole = held(claims, ticket)
for _, claim in ipairs(granted and not whole and claims or {}) do
    erase(claim.at, ticket)
end
if whole then
    call("ZREM", home.parked, ticket)
end
if whole and granted.by == "k" then -- kept for it to come back: now the message goes out with it
    granted.by = "g"
    for _, claim in ipairs(claims) do
        write(claim.at, ticket, claim.weight, granted, now + TAKE_UP)
    end
    call("ZADD", home.outbox, 0, ticket)
end
return answer_hand_on()
