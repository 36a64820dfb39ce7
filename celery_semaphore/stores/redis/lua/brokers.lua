-- K5: note the caller's broker, if it names one, and return those that were named lately.
--   the last key is a zset, broker -> when a worker named it last
--   arg 1 the broker, or empty
-- Returns {epoch, names}
local named, kept = KEYS[COMMON + 1], BROKER_FOR_S * 1000000
even_if_full()
if arg(1) ~= "" then
    call("ZADD", named, now, arg(1))
    call("PEXPIRE", named, kept / 1000) -- no broker counts then
end
call("ZREMRANGEBYSCORE", named, "-inf", now - kept)
call("ZREMRANGEBYSCORE", named, now + kept, "+inf") -- after the clock stepped back
return {epoch, call("ZRANGE", named, 0, -1)}
