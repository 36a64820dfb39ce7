-- K3: count the workers that consume each of these queues.
--   the keys after the common ones are those of consume.lua
-- Returns {epoch, {count...}}
local kept = math.max(CONSUMED_FOR_S * 1000000, LEASE)
local earliest, latest = string.format("(%.0f", now - kept), string.format("(%.0f", now + kept) -- K2
local counts = {}
for n = COMMON + 1, #KEYS do
    table.insert(counts, call("ZCOUNT", KEYS[n], earliest, latest))
end
return {epoch, counts}
