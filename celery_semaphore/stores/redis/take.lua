-- The messages of one resource that must be sent, each to one caller only; what is not sent comes again.
--   arg 1 at most so many
-- Returns {epoch, {ticket, token or 0, until it must be sent, claims, payload}...}
local at, grants = resources[1], {}
for _, nonce in ipairs(call("ZRANGE", at.outbox, 0, tonumber(arg(1)) - 1)) do
    call("ZREM", at.outbox, nonce)
    local grant, payload = read(at, GRANT .. nonce), call("HGET", at.payloads, nonce)
    if payload and (grant or not is_parked(at, nonce)) then
        local info, ticket = wait_info(at, nonce)
        local ends = grant and grant.ends or tonumber(call("ZSCORE", at.due, nonce))
        table.insert(grants, {ticket, grant and grant.token or 0, ends, info.claims, payload})
    end
end
return {epoch, grants}
