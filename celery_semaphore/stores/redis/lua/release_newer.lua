-- R1: release a permit that this library's release wrote, in a store of a newer format, and mark its resources as
-- overdue. Lines, grants and outboxes may have another layout by now: a newer worker reaps the resources and hands on.
--   arg 1 holder; for the others see _ran.lua
-- Returns {epoch}
local holder = arg(1)
for _, at in ipairs(resources) do
    local record, again = unpack(call("HMGET", at.ledger, "of:" .. holder, "again:" .. holder))
    if again and ran.is_first then
        ran.note()
    end
    local permit = record and records.parsed(record)
    if permit then
        records.erase(at, holder, permit)
        records.mark_released(at, holder)
        index.mark_in_use(at, now)
    end
end
return {epoch}
