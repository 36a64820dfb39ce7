-- End what is overdue in the declared resources, and hand on what is free.
--   arg 1 in whose name: the holder or ticket whose call is carried on, or a name for nobody
-- Returns {epoch, 1 when there is more to hand on, resources it needs for that, grants}
for _, at in ipairs(resources) do
    drop(at)
    call("ZREM", INDEX, at.name) -- it is looked at now
end
local answer = answer_hand_on(arg(1))
for _, at in ipairs(resources) do
    local look = now + LEASE
    for _, line in ipairs({at.holders, at.due}) do
        look = math.min(look, tonumber(call("ZRANGE", line, 0, 0, "WITHSCORES")[2]) or look)
    end
    settle(at, look)
end
return answer
