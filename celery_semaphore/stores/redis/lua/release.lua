-- Release the permit for good, or prevent that the holder gets one later; then hand on. Given a ticket, end its wait.
--   arg 1 holder, or ticket; for the others see _ran.lua
-- Returns epoch if there is no wait, or as answer_hand_on
-- Most calls end here, for there is no wait. All other calls go on in release_slow_path.lua.
local holder, nonce = arg(1), records.nonce_of(arg(1))
local no_waiters = not nonce

local LATELY = 50 -- permits

-- Add a permit to the mean of those released lately. With fewer, one long run in ten would delay all the waits that ask
-- soon after it, and permits would be idle until they ask again.
local function learn(at, held_for, mean, mean_samples)
    mean_samples, mean = (tonumber(mean_samples) or 0) + 1, mean or held_for
    mean = mean + (held_for - mean) / math.min(LATELY, mean_samples)
    if mean_samples > LATELY then
        call("HSET", at.ledger, "mean", mean)
    else
        call("HSET", at.ledger, "mean", mean, "mean_samples", mean_samples)
    end
end

-- Return whether the lease ended before this release: then it is unknown how long the permit was in use.
local function overdue(at, permit)
    return now - permit.since >= LEASE and is_over(tonumber(call("ZSCORE", at.holders, holder) or 0))
end

for _, at in ipairs(resources) do
    at.no_waiters = call("EXISTS", at.tickets) == 0 -- if so, overdue leases need not end now
    no_waiters = no_waiters and at.no_waiters
    local record, mean, mean_samples, again = unpack(
        call("HMGET", at.ledger, "of:" .. holder, "mean", "mean_samples", "again:" .. holder))
    if again and ran.is_first then
        ran.note()
    end
    local permit = record and records.parsed(record)
    local counts = permit and not overdue(at, permit)
    if records.erase(at, holder, permit) and counts then -- R3
        at.held_for = math.max(0, now - permit.since) -- the clock may have stepped back
        learn(at, at.held_for, mean, mean_samples)
    end
    records.mark_released(at, holder)
end

if no_waiters then
    for _, at in ipairs(resources) do
        if call("EXISTS", at.holders) == 0 then -- else it stays in use
            index.expire_idle(at)
        end
    end
    return epoch
end
