-- The broker has this message: forget it, and keep its permit until it comes.
--   arg 1 ticket  2 token of its grant, or 0
-- Returns {epoch}
local ticket, token = arg(1), tonumber(arg(2))
for _, at in ipairs(resources) do
    local grant = read(at, ticket)
    if call("HEXISTS", at.tickets, ticket) == 1 then
        leave(at, ticket)
    end
    if grant and grant.token == token then
        call("ZADD", at.holders, now + TAKE_UP, ticket)
    end
    settle(at)
end
return {epoch}
