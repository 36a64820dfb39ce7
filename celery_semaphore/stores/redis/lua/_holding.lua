-- Judge whether a permit is alive, and may be restored: rows A5, A6 and A21 of docs/maintain/architecture.md.
local holding = {}

-- Add a permit to the sums of `all_permits`, or take it out of them.
local function count_in(at, permit, sign)
    if permit and permit.confirmed then at.living = at.living + sign * permit.weight end
    if permit and not permit.restored then at.survived = at.survived + sign * permit.weight end
end

-- Return all permits in the ledger, read once in a call: thousands take milliseconds. Also sum the weights of those
-- that are known to be alive (`living`), and of those that survived the last loss (`survived`).
local function all_permits(at)
    if not at.permits then
        local ledger = call("HGETALL", at.ledger)
        at.permits, at.living, at.survived = {}, 0, 0
        for n = 1, #ledger, 2 do
            local name = ledger[n]:match("^of:(.*)$")
            if name then
                at.permits[name] = records.parsed(ledger[n + 1])
                count_in(at, at.permits[name], 1)
            end
        end
    end
    return at.permits
end

-- Refresh the permit of one holder after a change.
function holding.read_again(at, name)
    if at.permits then
        local record = call("HGET", at.ledger, "of:" .. name)
        count_in(at, at.permits[name], -1)
        at.permits[name] = record and records.parsed(record) or nil
        count_in(at, at.permits[name], 1)
    end
end

-- A21: return whether a permit of an earlier epoch fits beside those that are known to be alive. A permit that was not
-- yet confirmed in this epoch may have ended in the moments that the store lost. The limit may have been lowered since
-- the permits were admitted: all that survived a loss was admitted once. `own` and `other` are the names of the permit
-- itself.
function holding.has_room_for_living(claim, own, other)
    local at, limit = claim.at, permits.limit_of_living(claim)
    if not limit then
        return true
    end
    local mine = own and holders.read(at, own) or other and holders.read(at, other)
    -- If none was restored, all that are known to be alive survived, as this one did: skip the count. After a restart
    -- with a lowered limit, or a pause, thousands come at once.
    if mine and mine.weight == claim.weight and not mine.restored
        and call("HGET", at.ledger, "restored") ~= EPOCH_WRITTEN then
        return true
    end
    if permits.occupied(at) - (mine and mine.weight or 0) + claim.weight <= limit then -- even if all others are alive
        return true
    end
    local all, living = all_permits(at), at.living
    for _, name in ipairs({own, other}) do -- the permit must not count against itself
        local its = all[name]
        living = living - (its and its.confirmed and its.weight or 0)
    end
    return living + claim.weight <= math.max(limit, at.survived)
end

-- Return whether a permit is alive. An overdue lease is dead even before it is deleted. A grant of an earlier epoch
-- does not count, since it may have been taken up and released: its ticket must acquire again.
local function lives(claim, name, mine)
    if not mine.confirmed and (mine.by ~= "" or not holding.has_room_for_living(claim, name)) then
        return false
    end
    return not is_over(mine.ends, mine.by ~= "")
end

-- Return what a holder or a grant has on these claims, and whether it is whole and alive.
function holding.held(claims, name)
    local found, permit = 0, nil
    for _, claim in ipairs(claims) do
        local mine = holders.read(claim.at, name)
        permit = permit or mine
        claim.restored = mine and mine.restored
        if mine and mine.weight == claim.weight and lives(claim, name, mine) then
            found = found + 1
        end
    end
    return permit, found == #claims
end

-- A6: end a permit that the store has on some of its claims only.
function holding.end_part(claims, holder)
    for _, claim in ipairs(claims) do
        records.erase(claim.at, holder)
        records.mark_released(claim.at, holder)
    end
end
