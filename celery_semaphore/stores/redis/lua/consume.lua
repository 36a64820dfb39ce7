-- Note which queues a worker consumes now, and which ones it left.
--   the keys after the common ones are zsets, each of one queue: worker -> when it said so last. First come the queues
--   that it consumes. A key that is lost is back with the next call.
--   arg 1 worker  2 the number of queues that it consumes
-- Returns {epoch}
local kept = math.max(CONSUMED_FOR_S * 1000000, LEASE)
even_if_full()
for n = COMMON + 1, #KEYS do
    if n - COMMON <= tonumber(arg(2)) then
        call("ZADD", KEYS[n], now, arg(1)) -- K1
    else
        call("ZREM", KEYS[n], arg(1))
    end
    call("ZREMRANGEBYSCORE", KEYS[n], "-inf", now - kept) -- K2
    call("ZREMRANGEBYSCORE", KEYS[n], now + kept, "+inf") -- after the clock stepped back
    call("PEXPIRE", KEYS[n], math.ceil(kept / 1000)) -- no worker counts then
end
return {epoch}
