-- The most that can live of what this epoch remembers, whatever the limit is now: all of it, for it was admitted once.
-- But where the epoch before put permits back, they stand beside the dead whose places they have: then no more than
-- that epoch let live, or admitted since.
local function ceiling_of(at, limit, ledger)
    local known_in, ceiling = (call("HGET", at.ledger, "ceiling") or ""):match("^(%d+) (%d+)$")
    if known_in == EPOCH_WRITTEN then
        return tonumber(ceiling)
    end
    local all, since = 0, 0
    for _, each in pairs(ledger) do
        all = all + each.weight
        since = since + (known_in and each.epoch >= tonumber(known_in) and each.weight or 0)
    end
    ceiling = ceiling and math.min(all, math.max(limit, tonumber(ceiling), since)) or all
    even_if_full()
    call("HSET", at.ledger, "ceiling", EPOCH_WRITTEN .. string.format(" %.0f", ceiling))
    return ceiling
end

local function all_permits(at)
    local permits, ledger = {}, call("HGETALL", at.ledger)
    for n = 1, #ledger, 2 do
        local name = ledger[n]:match("^of:(.*)$")
        if name then
            permits[name] = parsed(ledger[n + 1])
        end
    end
    return permits
end

-- Whether a permit of an earlier epoch fits beside those that are known to live. One that is only remembered may have
-- ended in the moments that the store forgot. A limit may have been lowered since so many were admitted. `own` and
-- `other` are the names that it has itself.
local function has_room_for_living(claim, own, other)
    local at, limit = claim.at, limit_of(claim.at, claim.limit)
    local mine = own and read(at, own) or other and read(at, other)
    if occupied(at) - (mine and mine.weight or 0) + claim.weight <= limit then -- beside all of them
        return true
    end
    local living, remembered, ledger = 0, 0, all_permits(at)
    for name, each in pairs(ledger) do
        if each.confirmed and name ~= own and name ~= other then living = living + each.weight end
        if not each.restored then remembered = remembered + each.weight end
    end
    return living + claim.weight <= math.max(limit, math.min(remembered, ceiling_of(at, limit, ledger)))
end

-- An overdue lease is dead, even before it is dropped. A grant of an earlier epoch may have been taken up and given
-- back: its ticket asks anew.
local function lives(claim, name, mine)
    if not mine.confirmed and (mine.by ~= "" or not has_room_for_living(claim, name)) then
        return false
    end
    return mine.ends > now or in_grace
end

-- What a holder has, or a ticket that was granted, and whether that is all of it, and alive.
local function held(claims, name)
    local found, permit = 0, nil
    for _, claim in ipairs(claims) do
        local mine = read(claim.at, name)
        permit = mine or permit
        claim.restored = mine and mine.restored
        if mine and mine.weight == claim.weight and lives(claim, name, mine) then
            found = found + 1
        end
    end
    return permit, found == #claims
end

-- A permit on some of its claims is none.
local function end_part(claims, holder)
    for _, claim in ipairs(claims) do
        erase(claim.at, holder)
        bury(claim.at, holder)
    end
end
