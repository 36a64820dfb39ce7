-- Return the messages of one resource that must be sent, each to one caller only. A message that is not sent is
-- returned again later.
--   arg 1 how many at most
-- Returns {epoch, {ticket, token or 0, until it must be sent, claims, payload}...}
local at, grants = resources[1], {}
local outgoing = call("ZRANGE", at.outbox, 0, tonumber(arg(1)) - 1, "WITHSCORES")
for n = 1, #outgoing, 2 do
    local nonce, token = outgoing[n], tonumber(outgoing[n + 1])
    call("ZREM", at.outbox, nonce)
    local grant, payload = holders.read(at, GRANT .. nonce), call("HGET", at.payloads, nonce)
    local ended = token == 0 and not waits.is_in_line(at, nonce)
    -- A later grant may be for another message of this wait, on another resource.
    if payload and (ended or grant and grant.token == token) then
        local info, ticket = waits.info(at, nonce)
        local ends = grant and grant.ends or tonumber(call("ZSCORE", at.due, nonce))
        table.insert(grants, {ticket, grant and grant.token or 0, ends, info.claims, payload})
    end
end
return {epoch, grants}
