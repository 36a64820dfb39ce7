-- Attach its message to a parked ticket; from now on it can be granted, perhaps at once.
--   arg 1 ticket  2 payload  3 its name, or empty  4 microseconds until its wait ends, or empty
--       5 its broker, or empty: any  6 claims, as the caller wrote them, then limit and weight of each resource
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send}
local ticket, payload, ends_in = arg(1), arg(2), tonumber(arg(4))
local home, asked = resources[1], {kind = "park", due = now, claims = arg(6), names = {}, weights = {}, limits = {}}
asked.name, asked.ends, asked.broker = arg(3), ends_in and now + ends_in, arg(5) ~= "" and arg(5) or nil
local claims = {}
for n, at in ipairs(resources) do
    claims[n] = {at = at, weight = tonumber(arg(6 + 2 * n))}
    asked.names[n], asked.limits[at.name] = at.name, tonumber(arg(5 + 2 * n))
    asked.weights[at.name] = claims[n].weight
end
local nonce = records.nonce_of(ticket)
local other_claims = waits.other_claims(nonce, asked)
if other_claims then -- A19
    return {epoch, "other claims", other_claims, ticket}
end
for _, at in ipairs(resources) do
    expiry.end_overdue(at)
end
-- A grant does not count if it ended on one claim: the room may be taken.
local granted, whole = holding.held(claims, GRANT .. nonce)
ticket = waits.known_ticket(nonce) or ticket
for _, at in ipairs(resources) do
    home = at.stands and at or home
end
local before = home.info
local is_held = before and before.session
if is_held then
    sessions.tell(before.session, home, nonce) -- E3: the worker that takes the outbox sends it
end
-- A ticket that was deleted meanwhile returns to its place: its message must not be lost.
line.enqueue(home, ticket, asked, payload)
for _, claim in ipairs(granted and not whole and claims or {}) do
    holders.take_back(claim.at, nonce)
end
if whole then
    waits.step_out(home, ticket)
else -- an earlier end, or a grant that ended, has left its entry
    call("ZREM", home.outbox, nonce)
end
if whole and is_held then -- E3
    for _, claim in ipairs(claims) do
        call("ZADD", claim.at.holders, now + waits.TAKE_UP, GRANT .. nonce)
    end
    call("ZADD", home.outbox, granted.token, nonce)
    index.mark_in_use(home, now)
end
return hand_on.answer()
