-- E15: delete a message that the broker has, and keep its grant until it is taken up. The ticket may have changed
-- meanwhile, for its message may have been delivered and parked again: such a record stays.
--   arg 1 ticket  2 token of its grant, or 0  3 the end from take.lua: for a wait that ended it tells this end from a
--   later one  4 given if no worker will take the grant up: it ends now, and the next reap hands on
-- Returns {epoch}
local nonce, token, until_when = records.nonce_of(arg(1)), tonumber(arg(2)), tonumber(arg(3))
for _, at in ipairs(resources) do
    local grant = holders.read(at, GRANT .. nonce)
    local granted = grant and grant.token == token
    local ended = token == 0 and not grant
        and not waits.is_in_line(at, nonce) and tonumber(call("ZSCORE", at.due, nonce)) == until_when
    if ended then
        waits.dequeue(at, nonce)
    end
    if granted then
        waits.send(at, nonce) -- first: then a server without free memory accepts the rest
        call("ZADD", at.holders, now + (arg(4) and 0 or waits.TAKE_UP), GRANT .. nonce)
    end
    holders.update_index(at, arg(4) and now)
end
return {epoch}
