-- Of release: where somebody waits, or a ticket is given up.
-- A ticket is given up with all it has. An acquire whose answer never came may have left a wait as well, to which a
-- permit may have been handed since; one whose message was parked is on its own.
local wait, given_up = nonce or holder, nonce
for _, at in ipairs(resources) do
    drop(at)
    if at.held_for and call("EXISTS", at.tickets) == 1 then
        call("HSET", at.ledger, "latest", at.held_for)
    end
    if call("HEXISTS", at.tickets, wait) == 1 and (nonce or call("HEXISTS", at.payloads, wait) == 0) then
        dequeue(at, wait)
        given_up = wait
    end
end
for _, at in ipairs(given_up and resources or {}) do
    take_back(at, wait)
end
return answer_hand_on()
