-- Give the permit back for good, or make sure that there will be none; hand on. A ticket may be given up too.
--   arg 1 holder, or ticket; for the others see _ran.lua
-- Returns epoch if nobody waits, or as answer_hand_on
-- Most calls end here, for nobody waits; release_else.lua is for all others.
local holder, nonce = arg(1), nonce_of(arg(1))
local no_waiters = not nonce

local LATELY = 50 -- permits

-- The mean is that of the permits released lately. Of fewer, one long run in ten would delay all the waits that ask soon
-- after it, and permits would be idle until they ask again.
local function learn(at, held_for, mean, mean_samples)
    mean_samples, mean = (tonumber(mean_samples) or 0) + 1, mean or held_for
    mean = math.floor(mean + (held_for - mean) / math.min(LATELY, mean_samples) + 0.5)
    if mean_samples > LATELY then
        call("HSET", at.ledger, "mean", mean)
    else
        call("HSET", at.ledger, "mean", mean, "mean_samples", mean_samples)
    end
end

-- Nobody knows when one whose lease ended was given back. In the grace the server was away, and nobody could renew.
local function overdue(at, permit)
    return now - permit.since >= LEASE and not in_grace and tonumber(call("ZSCORE", at.holders, holder) or 0) <= now
end

for _, at in ipairs(resources) do
    at.no_waiters = call("EXISTS", at.tickets) == 0 -- then nobody wants the place of those whose lease has ended
    no_waiters = no_waiters and at.no_waiters
    local record, mean, mean_samples = unpack(call("HMGET", at.ledger, "of:" .. holder, "mean", "mean_samples"))
    local permit = record and parsed(record)
    local counts = permit and not overdue(at, permit)
    if erase(at, holder, permit) and counts then
        at.held_for = math.max(0, now - permit.since) -- the clock may have stepped back
        learn(at, at.held_for, mean, mean_samples)
    end
    mark_released(at, holder)
end

if no_waiters then
    for _, at in ipairs(resources) do
        if call("EXISTS", at.holders) == 0 then -- else those keep it in use
            expire_idle(at)
        end
    end
    return epoch
end
