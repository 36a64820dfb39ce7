-- Of release: where somebody waits.
-- An acquire whose answer never came may have left a ticket, to which a permit may have been handed since; one whose
-- message was parked is on its own.
local function give_up_ticket(at)
    local made = call("HGET", at.tickets, "by:" .. holder)
    if made and call("HEXISTS", at.payloads, made) == 0 then
        for _, claimed in ipairs(resources) do
            erase(claimed, made)
        end
        leave(at, made)
    elseif call("HEXISTS", at.tickets, holder) == 1 then
        leave(at, holder)
    end
end

for _, at in ipairs(resources) do
    drop(at)
    if not at.quiet then
        give_up_ticket(at)
    end
end
return answer_hand_on()
