-- Find where the messages with these names are parked.
--   arg 1... names
-- Returns {epoch, {resource and nonce of the wait, with a line feed between them, or false}...}
return {epoch, call("HMGET", NAMES, unpack(ARGV, given + 1))}
