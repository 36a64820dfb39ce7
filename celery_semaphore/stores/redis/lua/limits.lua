-- Return the limits that operators set.
-- Returns {epoch, {resource or semaphore, limit...}}
return {epoch, call("HGETALL", LIMITS)}
