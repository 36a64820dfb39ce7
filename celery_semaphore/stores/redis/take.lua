-- The messages of one resource that must be sent, each to one caller only; what is not sent comes again.
--   arg 1 at most so many
-- Returns {epoch, {ticket, token or 0, until it must be sent, claims, payload}...}
local at, grants = resources[1], {}
for _, ticket in ipairs(call("ZRANGE", at.outbox, 0, tonumber(arg(1)) - 1)) do
    call("ZREM", at.outbox, ticket)
    local grant, payload = read(at, ticket), call("HGET", at.payloads, ticket)
    if payload and (grant or not is_parked(at, ticket)) then
        local ends = grant and grant.ends or tonumber(call("ZSCORE", at.due, ticket))
        table.insert(grants, {ticket, grant and grant.token or 0, ends, ticket_info(at, ticket).claims, payload})
    end
end
return {epoch, grants}
