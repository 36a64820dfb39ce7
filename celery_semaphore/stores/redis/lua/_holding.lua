-- Add a permit to the sums of `all_permits`, or take it out of them.
local function count_in(at, permit, sign)
    if permit and permit.confirmed then at.living = at.living + sign * permit.weight end
    if permit and not permit.restored then at.remembered = at.remembered + sign * permit.weight end
end

-- What the ledger has of every holder, read once in a call: it takes milliseconds where there are thousands. With it
-- the weights of those that are known to live, and of those that this epoch remembers.
local function all_permits(at)
    if not at.permits then
        local ledger = call("HGETALL", at.ledger)
        at.permits, at.living, at.remembered = {}, 0, 0
        for n = 1, #ledger, 2 do
            local name = ledger[n]:match("^of:(.*)$")
            if name then
                at.permits[name] = parsed(ledger[n + 1])
                count_in(at, at.permits[name], 1)
            end
        end
    end
    return at.permits
end

-- To be called after what was read of it has changed.
local function read_again(at, name)
    if at.permits then
        local record = call("HGET", at.ledger, "of:" .. name)
        count_in(at, at.permits[name], -1)
        at.permits[name] = record and parsed(record) or nil
        count_in(at, at.permits[name], 1)
    end
end

-- The most that can live of what this epoch remembers, whatever the limit is now: all of it, for it was admitted once.
-- But where the epoch before put permits back, they stand beside the dead whose places they have: then no more than
-- that epoch let live, or admitted since.
-- Answers also whether that is all of it.
local function ceiling_of(at, limit)
    local known_in, ceiling, all_of_it = (call("HGET", at.ledger, "ceiling") or ""):match("^(%d+) (%d+)(.*)$")
    if known_in == EPOCH_WRITTEN then
        return tonumber(ceiling), all_of_it ~= ""
    end
    local all, since = 0, 0
    for _, each in pairs(all_permits(at)) do
        all = all + each.weight
        since = since + (known_in and tonumber(each.epoch) >= tonumber(known_in) and each.weight or 0)
    end
    ceiling = ceiling and math.min(all, math.max(limit, tonumber(ceiling), since)) or all
    even_if_full()
    local record = EPOCH_WRITTEN .. string.format(" %.0f", ceiling) .. (ceiling == all and " all" or "")
    call("HSET", at.ledger, "ceiling", record)
    return ceiling, ceiling == all
end

-- Whether a permit of an earlier epoch fits beside those that are known to live. One that is only remembered may have
-- ended in the moments that the store forgot. A limit may have been lowered since so many were admitted. `own` and
-- `other` are the names that it has itself.
local function has_room_for_living(claim, own, other)
    local at, limit = claim.at, limit_of(claim.at, claim.limit)
    local mine = own and read(at, own) or other and read(at, other)
    -- It is one of those that this epoch began with. If all of them may live, and none was put back beside them, no
    -- permit need be counted: after a restart with the limit lowered, or paused, thousands come at once.
    if mine and mine.weight == claim.weight and not mine.restored and call("HGET", at.ledger, "put back") ~= EPOCH_WRITTEN then
        local _, all_of_it = ceiling_of(at, limit)
        if all_of_it then
            return true
        end
    end
    if occupied(at) - (mine and mine.weight or 0) + claim.weight <= limit then -- beside all of them
        return true
    end
    local permits, living = all_permits(at), at.living
    for _, name in ipairs({own, other}) do -- of its own two names
        local its = permits[name]
        living = living - (its and its.confirmed and its.weight or 0)
    end
    return living + claim.weight <= math.max(limit, math.min(at.remembered, (ceiling_of(at, limit))))
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
        mark_released(claim.at, holder)
    end
end
