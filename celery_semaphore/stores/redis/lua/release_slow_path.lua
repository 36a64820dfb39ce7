-- Decide the calls of release that release.lua does not: there are waits, or a ticket is given.
-- R6, E14: end the wait of the ticket, or of an acquire that lost its answer, and the grant that it may have got since.
-- A wait with a parked message ends only by its ticket.
local wait, given_up = nonce or holder, nonce
for _, at in ipairs(resources) do
    expiry.end_overdue(at) -- R2
    if at.held_for and call("EXISTS", at.tickets) == 1 then
        call("HSET", at.ledger, "latest", at.held_for)
    end
    local info = waits.info(at, wait)
    local is_unheard = info and call("HEXISTS", at.payloads, wait) == 0 and not waits.was_sent(at, wait, info)
    if info and (nonce or is_unheard) then
        waits.dequeue(at, wait)
        given_up = wait
    end
end
if given_up then
    kept_room.finish(resources, wait)
    for _, at in ipairs(resources) do
        holders.take_back(at, wait)
    end
end
return hand_on.answer() -- R7
