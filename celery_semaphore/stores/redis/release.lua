-- Give the permit back for good, or make sure that there will be none; hand on. A ticket may be given up too.
--   arg 1 holder, or ticket
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, grants}
local holder = arg(1)

-- An acquire whose answer never came may have left a ticket; one whose message was parked is on its own.
local function give_up_ticket(at)
    if at.quiet then
        return
    end
    local made = call("HGET", at.tickets, "by:" .. holder)
    if made and call("HEXISTS", at.payloads, made) == 0 then
        leave(at, made)
    elseif call("HEXISTS", at.tickets, holder) == 1 then
        leave(at, holder)
    end
end

-- The mean of the last fifty or so. Of fewer, one long run in ten would send everybody far away who asks soon
-- after it, and permits would lie idle until they are back.
local function learn(at, held_for)
    local mean = meta(at).mean or held_for
    local n = math.min(50, call("HINCRBY", at.meta, "learnt", 1))
    call("HSET", at.meta, "mean", whole(mean + (held_for - mean) / n))
end

for _, at in ipairs(resources) do
    drop(at)
    local permit = read(at, holder)
    if permit and permit.by == "" then
        learn(at, now - permit.since)
    end
    if permit then
        erase(at, holder)
    end
    if not bury(at, holder) then
        handed_on(at, holder)
    end
    give_up_ticket(at)
end
return answer_hand_on(holder)
