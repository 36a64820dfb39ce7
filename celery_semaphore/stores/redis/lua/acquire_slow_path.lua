-- Decide the calls of acquire that acquire.lua does not: holders that have a permit or were released, tickets,
-- resources with waits, and refusals.
for _, at in ipairs(resources) do
    expiry.end_overdue(at) -- A3
    if at.raised and not at.no_waiters then -- a raised limit may have room for waits in line
        index.mark_in_use(at, now)
    end
end
local grant, whole = holding.held(claims, GRANT .. own_wait.nonce)
whole = whole and not own_wait.refused_by
local known = waits.known_ticket(own_wait.nonce) or ticket ~= "" and ticket or own_wait.new_ticket()
ticket = messages.begins_anew() and own_wait.new_ticket() or known -- A15
messages.carried = messages.carried ~= "" and ticket or ""
local permit, complete = holding.held(claims, holder)
if complete then -- A5
    return string.format("%.0f %.0f %.0f %.0f", epoch, permit.token, permit.since, permit.ends)
elseif permit then -- A6: the store has lost a part of it
    holding.end_part(claims, holder)
end
for n, claim in ipairs(claims) do
    if permits.was_released(claim.at, holder) then -- A7
        permits.no_room(claim)
        return own_wait.refuse(n, "released")
    end
end
local other_claims = waits.other_claims(own_wait.nonce, own_wait.asked)
if other_claims then -- A19
    for _, at in ipairs(resources) do -- whose limits were noted (A4)
        holders.update_index(at)
    end
    return {epoch, "other claims", other_claims, ticket}
end

local run = messages.run()
if run then -- A8, A9
    if run == "copy" then -- A8: the wait is over, so a grant of its ticket ends too
        for _, claim in ipairs(claims) do
            holders.take_back(claim.at, own_wait.nonce)
            index.mark_in_use(claim.at, now)
        end
        own_wait.forget()
    else
        messages.note_run()
    end
    permits.no_room(claims[1])
    return own_wait.refuse(1, run)
end

for _, claim in ipairs(claims) do
    -- A10, E8: the holder takes it up; A11: it has ended on some of its claims, or with its epoch, or must not run now
    if grant then
        holders.take_back(claim.at, own_wait.nonce)
        if not whole then
            line.put_back(claim.at, own_wait.nonce)
        end
    end
end
-- A12: even if there is room now.
if not whole and line.place_of(ticket) < now and own_wait.kind == "block" and own_wait.left() <= 0 then
    permits.no_room(claims[1])
    return own_wait.refuse(1, "timed_out")
end
if own_wait.refused_by then
    permits.no_room(claims[own_wait.refused_by])
    return own_wait.refuse(own_wait.refused_by, "paused")
end
if not whole then
    local refusing, reason = line.refusing(claims, 1, ticket)
    if refusing then -- A13
        return own_wait.refuse(refusing, reason)
    end
end
own_wait.forget() -- A10 or A14
own_wait.end_kept_room()
if not messages.is_first then
    messages.remember(messages.carried, messages.own)
elseif messages_key then
    call("DEL", messages_key)
end
-- Count the permit as held from now on: the time from the grant to here would make the expected waits too long.
return admit({token = whole and grant.token or permits.new_token(claims), since = now, by = ""})
