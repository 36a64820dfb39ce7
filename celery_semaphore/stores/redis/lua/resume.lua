-- End the pause of this name.
--   arg 1 resource, or semaphore
-- Returns {epoch}
even_if_full()
call("HDEL", LIMITS, PAUSE .. arg(1))
decisions.forget_ended()
return {epoch}
