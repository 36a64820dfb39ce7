-- Set a limit until it is cleared; it outlives every permit.
--   arg 1 resource, or semaphore  2 limit, or empty to clear it
-- Returns {epoch}
even_if_full()
if arg(2) == "" then
    call("HDEL", LIMITS, arg(1))
else
    call("HSET", LIMITS, arg(1), string.format("%s %.0f", arg(2), now))
end
decisions.forget_ended()
return {epoch}
