-- E12: end the waits of parked messages of one resource; a granted one goes on, for its message is on its way.
--   arg 1... their nonces
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send}
local at = resources[1]
even_if_full()
expiry.end_overdue(at)
for n = given + 1, #ARGV do
    if waits.is_in_line(at, ARGV[n]) and call("HEXISTS", at.payloads, ARGV[n]) == 1 then
        waits.end_parked(at, ARGV[n])
    end
end
return hand_on.answer()
