-- What a holder has, or a ticket that was granted, and whether that is all of it, and alive: an overdue lease
-- is dead, even before it is dropped.
local function held(claims, name)
    local found, permit = 0, nil
    for _, claim in ipairs(claims) do
        local mine = read(claim.at, name)
        permit = mine or permit
        if mine and mine.weight == claim.weight and (mine.ends > now or in_grace) then
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
