-- Return one resource at this instant.
--   arg 1 number of waits at most  2 number of waits to skip
-- Returns {epoch, limit or "", set by operator, mean held or "", now, waiting,
--          {holder or ticket, token, weight, since, ends, granted}...,
--          {ticket, kind, weight, due, session, reachable}..., end of the grace or "", end of a pause or "",
--          {limit, its process} of what is in force if no operator set a limit, or {}, weight of kept room}
local at, most, skip = resources[1], tonumber(arg(1)), tonumber(arg(2))
local held_now, waiters = {}, {}

-- Return one page of tickets. With a single line, a far page costs no more than a near one.
local function page(lines)
    local used = {}
    for _, key in ipairs(lines) do
        if call("EXISTS", key) == 1 then table.insert(used, key) end
    end
    if #used == 1 then
        return call("ZRANGE", used[1], skip, skip + most - 1)
    end
    local all = {}
    for _, key in ipairs(used) do
        for _, ticket in ipairs(call("ZRANGE", key, 0, skip + most - 1)) do table.insert(all, ticket) end
    end
    table.sort(all)
    local shown = {}
    for n = skip + 1, math.min(skip + most, #all) do table.insert(shown, all[n]) end
    return shown
end

for _, name in ipairs(call("ZRANGE", at.holders, 0, -1)) do
    local mine = holders.read(at, name)
    if mine and not is_over(mine.ends, mine.by ~= "") then
        local granted = mine.by ~= ""
        local shown = granted and mine.rank .. "." .. name:sub(#GRANT + 1) or name
        table.insert(held_now, {shown, mine.token, mine.weight, mine.since, mine.ends, granted and 1 or 0})
    end
end
for _, ticket in ipairs(page(most > 0 and {at.line, at.transit, at.aside} or {})) do
    local info = waits.info(at, records.nonce_of(ticket))
    local reachable = not call("ZSCORE", at.transit, ticket) and sessions.reach(info)
    local weight, session = info.weights[at.name], info.session or ""
    table.insert(waiters, {ticket, info.kind, weight, info.due, session, reachable and 1 or 0})
end
local waiting = call("ZCARD", at.transit) + call("ZCARD", at.line) + call("ZCARD", at.aside)
local limit, set = permits.limit_behind(at, nil), permits.by_operator(at) and 1 or 0
return {epoch, limit or "", set, permits.known(at).mean or "", now, waiting, held_now, waiters,
    in_grace and grace_until or "", permits.paused_until(at) or "", limits.declared(permits.known(at)),
    kept_room.weight(at)}
