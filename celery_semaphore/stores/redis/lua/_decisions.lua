-- Change what operators decided: see _call.lua; _permits.lua reads it.
local decisions = {}

-- O4: delete the pauses that have ended, and note whether anything is left: most stores have nothing, and then no call
-- looks for it.
function decisions.forget_ended()
    local found = call("HGETALL", LIMITS)
    for n = 1, #found, 2 do
        if found[n]:sub(1, 1) == PAUSE and tonumber(found[n + 1]:match("^%d+")) <= now then
            call("HDEL", LIMITS, found[n])
        end
    end
    call("HSET", EPOCH, "limited", call("EXISTS", LIMITS))
    call("HDEL", EPOCH, "calm")
end
