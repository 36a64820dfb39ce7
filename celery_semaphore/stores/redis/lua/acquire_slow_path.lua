-- Of acquire: who holds already or was released, who has a ticket, before whom somebody waits, and refusals.
for _, at in ipairs(resources) do
    drop(at)
    if at.raised and not at.no_waiters then -- a new limit has room for those who wait: somebody must hand on
        mark_in_use(at, now)
    end
end
local grant, whole = held(claims, GRANT .. nonce)
ticket = known_ticket(grant) or ticket ~= "" and ticket or new_ticket()
carried = carried ~= "" and ticket or ""
local permit, complete = held(claims, holder)
if complete then
    return string.format("%.0f %.0f %.0f %.0f", epoch, permit.token, permit.since, permit.ends)
elseif permit then -- a part of it is gone from the store, so nobody counts on it any more
    end_part(claims, holder)
end
for n, claim in ipairs(claims) do
    if was_released(claim.at, holder) then
        no_room(claim)
        return refuse(n, "released")
    end
end

local other = other_message()
if other then
    if other == "copy" then -- whatever was handed to its ticket meanwhile is for nobody
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
    if grant then -- taken up, or made for other claims than these: its task has changed since
        take_back(claim.at, nonce)
        if not whole then
            put_back(claim.at)
        end
    end
end
if not whole and place_of(ticket) < now and kind ~= "" and kind ~= "requeue" and left() <= 0 then -- it came back to hear this
    no_room(claims[1])
    return refuse(1, "timed_out")
end
for n, claim in ipairs(whole and {} or claims) do
    local reason = refusal(claim, ticket)
    if reason then
        return refuse(n, reason)
    end
end
forget_wait()
if not is_first then
    remember(carried, message)
elseif messages then
    call("DEL", messages)
end
-- Held since now, not since it was granted: what waited for its session or its message would make later turns seem far.
return admit({token = whole and grant.token or new_token(claims), since = now, by = ""})
