-- Move waits before all others in this line, as if they had the highest priority: E11. Their places do not change, nor
-- does the time that they have waited.
--   arg 1... their nonces
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send}
even_if_full()
local at = resources[1]
expiry.end_overdue(at)
for n = given + 1, #ARGV do
    local record, ticket = call("HGET", at.tickets, ARGV[n]), waits.ticket_of(at, ARGV[n])
    for _, key in ipairs(ticket and {at.line, at.aside, at.transit} or {}) do
        if call("ZREM", key, ticket) == 1 then
            call("HSET", at.tickets, ARGV[n], "000" .. record:sub(4))
            call("ZADD", key, 0, "000" .. ticket:sub(4))
        end
    end
end
return hand_on.answer()
