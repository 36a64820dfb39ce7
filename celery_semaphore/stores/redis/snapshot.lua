-- One resource at this instant.
--   arg 1 at most so many waiters
-- Returns {epoch, limit or "", set by operator, mean held or "", now, waiting,
--          {holder or ticket, token, weight, since, ends, granted}..., {ticket, kind, weight, due}...}
local at, most = resources[1], tonumber(arg(1))
local held_now, waiters = {}, {}
for _, name in ipairs(call("ZRANGEBYSCORE", at.holders, in_grace and "-inf" or "(" .. string.format("%.0f", now), "+inf")) do
    local mine = read(at, name)
    if mine then
        table.insert(held_now, {name, mine.token, mine.weight, mine.since, mine.ends, mine.by ~= "" and 1 or 0})
    end
end
for _, line in ipairs(most > 0 and {at.parked, at.waiters, at.aside} or {}) do
    for _, ticket in ipairs(call("ZRANGE", line, 0, most - 1)) do
        local info = ticket_info(at, ticket)
        table.insert(waiters, {ticket, info.kind, info.weights[at.name], info.due})
    end
end
local waiting = call("ZCARD", at.waiters) + call("ZCARD", at.parked) + call("ZCARD", at.aside)
local limit, set = limit_of(at, nil), by_operator(at) and 1 or 0
return {epoch, limit or "", set, known(at).mean or "", now, waiting, held_now, waiters}
