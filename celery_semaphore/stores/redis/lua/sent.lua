-- The broker has this message: forget it, and keep its permit until it comes. Not what became of its ticket
-- meanwhile: it may have come back already, and be parked anew.
--   arg 1 ticket  2 token of its grant, or 0  3 until when it was to be sent: of waits that ended this tells one end
--   from the next
-- Returns {epoch}
local nonce, token, until_when = nonce_of(arg(1)), tonumber(arg(2)), tonumber(arg(3))
for _, at in ipairs(resources) do
    local grant = read(at, GRANT .. nonce)
    local granted = grant and grant.token == token
    local ended = token == 0 and not grant
        and not is_parked(at, nonce) and tonumber(call("ZSCORE", at.due, nonce)) == until_when
    if granted or ended then -- taken out first: then a full server allows what follows
        dequeue(at, nonce)
    end
    if granted then
        call("ZADD", at.holders, now + TAKE_UP, GRANT .. nonce)
    end
    update_index(at)
end
return {epoch}
