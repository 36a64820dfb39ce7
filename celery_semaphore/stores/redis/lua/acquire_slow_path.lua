-- Decide the calls of acquire that acquire.lua does not: holders that have a permit or were released, tickets,
-- resources with waits, and refusals.
for _, at in ipairs(resources) do
    drop(at) -- A3
    if at.raised and not at.no_waiters then -- a raised limit may have room for waits in line
        mark_in_use(at, now)
    end
end
local grant, whole = held(claims, GRANT .. nonce)
ticket = known_ticket(grant) or ticket ~= "" and ticket or new_ticket()
carried = carried ~= "" and ticket or ""
local permit, complete = held(claims, holder)
if complete then -- A5
    return string.format("%.0f %.0f %.0f %.0f", epoch, permit.token, permit.since, permit.ends)
elseif permit then -- A6: the store has lost a part of it
    end_part(claims, holder)
end
for n, claim in ipairs(claims) do
    if was_released(claim.at, holder) then -- A7
        no_room(claim)
        return refuse(n, "released")
    end
end

local other = other_message()
if other then -- A8, A9
    if other == "copy" then -- A8: the wait is over, so a grant of its ticket ends too
        for _, claim in ipairs(claims) do
            take_back(claim.at, nonce)
            mark_in_use(claim.at, now)
        end
        forget_wait()
    end
    no_room(claims[1])
    return refuse(1, other)
end

for _, claim in ipairs(claims) do
    if grant then -- A10, E8: the holder takes it up; A11: it was made for other claims, before the task changed
        take_back(claim.at, nonce)
        if not whole then
            put_back(claim.at)
        end
    end
end
-- A12: even if there is room now.
if not whole and place_of(ticket) < now and kind ~= "" and kind ~= "requeue" and left() <= 0 then
    no_room(claims[1])
    return refuse(1, "timed_out")
end
for n, claim in ipairs(whole and {} or claims) do
    local reason = refusal(claim, ticket)
    if reason then -- A13
        return refuse(n, reason)
    end
end
forget_wait() -- A10 or A14
if not is_first then
    remember(carried, message)
elseif messages then
    call("DEL", messages)
end
-- Count the permit as held from now on: the time from the grant to here would make the expected waits too long.
return admit({token = whole and grant.token or new_token(claims), since = now, by = ""})
