-- Of release, in a store of a newer format: take out the permit that this release wrote, and mark its resources for a look.
-- Lines, grants and outboxes may be written otherwise by now: a newer worker hands on when it looks.
--   arg 1 holder; for the others see _ran.lua
-- Returns {epoch}
local holder = arg(1)
for _, at in ipairs(resources) do
    local record = call("HGET", at.ledger, "of:" .. holder)
    local permit = record and parsed(record)
    if permit then
        erase(at, holder, permit)
        mark_released(at, holder)
        mark_in_use(at, now)
    end
end
return {epoch}
