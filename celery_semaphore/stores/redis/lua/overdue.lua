-- Claim resources that need a look, at most so many, for the caller: of many workers that ask at the same moment
-- each gets others. The claim ends by itself, for its caller may die before it looks.
--   arg 1 how many
-- Returns {epoch, names}
local CLAIMED = 1000000 -- microseconds: longer than the looks take, and short for the one that waits
local most = tonumber(arg(1))
local names = call("ZRANGEBYSCORE", INDEX, "-inf", now, "LIMIT", 0, most)
if #names < most then -- of a clock that stepped back, else nothing lies there
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
