-- The broker has this message: forget it, and keep its permit until it comes. Not what became of its ticket
-- meanwhile: it may have come back already, and be parked anew.
--   arg 1 ticket  2 token of its grant, or 0
-- Returns {epoch}
local ticket, token = arg(1), tonumber(arg(2))
even_if_full()
for _, at in ipairs(resources) do
    local grant = read(at, ticket)
    local granted = grant and grant.by ~= "" and grant.token == token
    local ended = token == 0 and not grant
        and not is_parked(at, ticket) and not call("ZSCORE", at.outbox, ticket)
    if (granted or ended) and call("HEXISTS", at.tickets, ticket) == 1 then
        leave(at, ticket)
    end
    if granted then
        call("ZADD", at.holders, now + TAKE_UP, ticket)
    end
    settle(at)
end
return {epoch}
