-- Move waits before all others in this line, as if they had the highest priority: E11. Their places do not change, nor
-- does the time that they have waited.
--   arg 1... their nonces
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send,
--          nonces of waits that a session must take up, nonces of those that were moved}
even_if_full()
local at, promoted = resources[1], {}
expiry.end_overdue(at)
for n = given + 1, #ARGV do
    local nonce = ARGV[n]
    local record, ticket = call("HGET", at.tickets, nonce), waits.ticket_of(at, nonce)
    for _, key in ipairs(ticket and {at.line, at.aside} or {}) do
        if call("ZREM", key, ticket) == 1 then
            call("HSET", at.tickets, nonce, "000" .. record:sub(4))
            call("ZADD", key, 0, "000" .. ticket:sub(4))
            table.insert(promoted, nonce)
        end
    end
end
local answer = hand_on.answer()
table.insert(answer, promoted)
return answer
