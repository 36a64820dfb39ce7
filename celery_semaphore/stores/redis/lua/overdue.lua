-- Claim overdue resources for the caller, so that workers that call at the same moment get different ones. The claim
-- ends by itself, since the caller may die before it reaps.
--   arg 1 how many at most
-- Returns {epoch, names}
local CLAIMED = 1000000 -- microseconds: longer than the reaping takes, and a short delay for a waiting task
local most = tonumber(arg(1))
local names = call("ZRANGEBYSCORE", INDEX, "-inf", now, "LIMIT", 0, most)
if #names < most then -- after the clock stepped back; else there are none
    for _, name in ipairs(call("ZRANGEBYSCORE", INDEX, furthest() + 1, "+inf", "LIMIT", 0, most - #names)) do
        table.insert(names, name)
    end
end
if #names > 0 then
    even_if_full()
end
for _, name in ipairs(names) do
    call("ZADD", INDEX, "XX", now + CLAIMED, name)
end
return {epoch, names}
