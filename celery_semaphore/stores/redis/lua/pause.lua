-- Pause, until the later one of both ends if it is paused already (O2).
--   arg 1 resource, or semaphore  2 how long it lasts, or empty  3 the end of a pause that lasts until it is resumed
-- Returns {epoch, 1 if that changed anything}
even_if_full()
local before, since = (call("HGET", LIMITS, PAUSE .. arg(1)) or ""):match("^(%d+) (%d+)$")
local ends = arg(2) == "" and tonumber(arg(3)) or now + tonumber(arg(2))
before = tonumber(before) or 0
if before <= now then
    since = string.format("%.0f", now)
end
call("HSET", LIMITS, PAUSE .. arg(1), string.format("%.0f ", math.max(before, ends)) .. since)
decisions.forget_ended()
return {epoch, ends > before and 1 or 0}
