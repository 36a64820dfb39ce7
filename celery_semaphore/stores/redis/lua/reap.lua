-- End what is overdue in the declared resources, and hand on what is free.
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send}
even_if_full()

-- E5: a wait that is set aside never comes to the head, where a wait that is not reachable is noticed.
local function send_off_set_aside(at)
    for _, ticket in ipairs(in_grace and {} or call("ZRANGE", at.aside, 0, 999)) do
        local info = waits.info(at, records.nonce_of(ticket))
        if not sessions.reach(info) then
            waits.send_off(at, ticket, info)
        end
    end
end

-- Return when the first of these ends, but for those that are over and stay until this time: a sweep that finds them
-- again and again finds no others.
local function first_end(key, spared_until)
    local first = tonumber(call("ZRANGE", key, 0, 0, "WITHSCORES")[2])
    if not first or first > now or spared_until <= now then
        return first
    end
    local later = string.format("(%.0f", now)
    local second = tonumber(call("ZRANGEBYSCORE", key, later, "+inf", "WITHSCORES", "LIMIT", 0, 1)[2])
    return math.min(second or spared_until, spared_until)
end

for _, at in ipairs(resources) do
    expiry.end_overdue(at)
    send_off_set_aside(at)
    call("ZREM", INDEX, at.name) -- set again below
    if permits.was_paused(at) then
        decisions.forget_ended()
    end
end
local answer = hand_on.answer()
local grace_end = in_grace and grace_until or 0
for _, at in ipairs(resources) do
    local later = in_grace and grace_until or kept_room.comes_at(at) or now + LEASE
    local look = call("EXISTS", at.outbox) == 1 and now or later
    look = math.min(look, first_end(at.holders, math.max(grace_end, awaited_until)) or look)
    look = math.min(look, first_end(at.due, grace_end) or look)
    holders.update_index(at, look)
end
return answer
