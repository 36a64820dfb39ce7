-- Change the durations that the store keeps for all callers (A16).
--   arg 1 lease  2 how long the grant of a sent message lasts
-- Returns {epoch}
even_if_full()
call("HSET", EPOCH, "lease", arg(1), "take_up", arg(2), "slow", slowest, "slow_until", now + slowest)
call("HDEL", EPOCH, "calm")
return {epoch}
