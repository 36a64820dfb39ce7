-- Give the permit back for good, or make sure that there will be none; hand on. A ticket may be given up too.
--   arg 1 holder, or ticket; for the others see _ran.lua
-- Returns epoch if nobody waits, or as answer_hand_on
-- Most calls end here, for nobody waits; release_else.lua is for all others.
local holder, nonce = arg(1), nonce_of(arg(1))
local quiet = not nonce

-- The mean of the last fifty or so. Of fewer, one long run in ten would send everybody far away who asks soon
-- after it, and permits would lie idle until they are back.
local function learn(at, held_for, mean, learnt)
    learnt, mean = (learnt or 0) + 1, mean or held_for
    mean = mean + (held_for - mean) / math.min(50, learnt)
    call("HSET", at.ledger, "learnt", learnt, "mean", math.floor(mean + 0.5), "latest", held_for)
end

-- Nobody knows when one whose lease ended was given back. In the grace the server was away, and nobody could renew.
local function overdue(at, permit)
    return now - permit.since >= LEASE and not in_grace and tonumber(call("ZSCORE", at.holders, holder) or 0) <= now
end

for _, at in ipairs(resources) do
    at.quiet = call("EXISTS", at.tickets) == 0 -- then nobody wants the place of those whose lease has ended
    quiet = quiet and at.quiet
    local record, mean, learnt = unpack(call("HMGET", at.ledger, "of:" .. holder, "mean", "learnt"))
    local permit = record and parsed(record)
    local counts = permit and not overdue(at, permit)
    if erase(at, holder, permit) and counts then
        learn(at, math.max(0, now - permit.since), mean, learnt) -- the clock may have stepped back
    end
    bury(at, holder)
end

if quiet then
    for _, at in ipairs(resources) do
        if call("EXISTS", at.holders) == 0 then -- else those keep it in use
            lay_down(at)
        end
    end
    return epoch
end
