-- Give a parked ticket its message; from now on it can be granted, perhaps at once.
--   arg 1 ticket  2 payload  3 claims, as the caller wrote them, then limit and weight of each resource
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, grants}
local ticket, payload = arg(1), arg(2)
local home, asked = resources[1], {kind = "park", due = now, claims = arg(3), names = {}, weights = {}, limits = {}}
for n, at in ipairs(resources) do
    asked.names[n], asked.limits[at.name] = at.name, tonumber(arg(2 + 2 * n))
    asked.weights[at.name] = tonumber(arg(3 + 2 * n))
    drop(at)
end
for _, at in ipairs(resources) do
    home = call("HEXISTS", at.tickets, ticket) == 1 and at or home
end
-- A ticket that was dropped meanwhile comes back with its place: its message must not be lost.
stand(home, ticket, asked, payload)
if read(home, ticket) then
    call("ZREM", home.parked, ticket)
end
handed_on(home, ticket)
return answer_hand_on(ticket)
