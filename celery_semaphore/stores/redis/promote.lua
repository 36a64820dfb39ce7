-- Let parked tickets go before all others, as if their priority were the highest there is. Each keeps its place among
-- those, and with it the time that it has waited.
--   arg 1... tickets
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, resources with messages to send}
even_if_full()
local at = resources[1]
drop(at)
for n = given + 1, #ARGV do
    local ticket, raised = ARGV[n], "000" .. ARGV[n]:sub(4)
    local payload = raised ~= ticket and is_parked(at, ticket) and call("HGET", at.payloads, ticket)
    if payload then
        local info = ticket_info(at, ticket)
        leave(at, ticket)
        stand(at, raised, info, payload)
    end
end
return answer_hand_on()
