-- Give the permit back for good, or make sure that there will be none; hand on. A ticket may be given up too.
--   arg 1 holder, or ticket  2 the message that brought the holder, if its task ran  3 for how long to remember that
--   the last key is what is remembered of the task's messages, where these are given
-- Returns {epoch} if nobody waits, or as answer_hand_on
-- Most calls end here, for nobody waits; release_else.lua is for all others.
local holder, quiet = arg(1), true

-- The mean of the last fifty or so. Of fewer, one long run in ten would send everybody far away who asks soon
-- after it, and permits would lie idle until they are back.
local function learn(at, held_for, mean, learnt)
    learnt, mean = (learnt or 0) + 1, mean or held_for
    mean = mean + (held_for - mean) / math.min(50, learnt)
    call("HSET", at.ledger, "learnt", learnt, "mean", math.floor(mean + 0.5))
end

-- An acquire whose answer never came may have left a ticket; one whose message was parked is on its own.
local function give_up_ticket(at)
    local made = call("HGET", at.tickets, "by:" .. holder)
    if made and call("HEXISTS", at.payloads, made) == 0 then
        leave(at, made)
    elseif call("HEXISTS", at.tickets, holder) == 1 then
        leave(at, holder)
    end
end

for _, at in ipairs(resources) do
    drop(at)
    local record, mean, learnt = unpack(call("HMGET", at.ledger, "of:" .. holder, "mean", "learnt"))
    local permit = record and parsed(record)
    if permit and erase(at, holder, permit.weight) and permit.by == "" then
        learn(at, now - permit.since, mean, learnt)
    end
    bury(at, holder)
    if not at.quiet then
        quiet = false
        give_up_ticket(at)
    end
end

if arg(2) then
    local messages = KEYS[11 * #resources + 5]
    local task = call("GET", messages)
    task = task and cmsgpack.unpack(task)
    if task and task.holder == holder and task.admitted == arg(2) then
        task.ran, task["until"] = true, now + arg(3)
        call("SET", messages, cmsgpack.pack(task), "PX", math.ceil(arg(3) / 1000))
    end
end

if quiet then
    for _, at in ipairs(resources) do
        settle(at)
    end
    return {epoch}
end
