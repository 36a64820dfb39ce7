-- Extend a lease that this library's release wrote in this epoch, in a store of a newer format, and write nothing else.
-- A lost permit is not restored, nor confirmed in a new epoch: that would write a record in an old format, and only
-- newer workers can tell whether it fits.
--   arg 1 holder, then the weight of each resource
-- Returns {epoch, "ok" | "lost"}
local holder = arg(1)
for n, at in ipairs(resources) do
    local record = call("HGET", at.ledger, "of:" .. holder)
    local permit = record and records.parsed(record)
    local ends = tonumber(call("ZSCORE", at.holders, holder) or 0)
    if not permit or not permit.confirmed or permit.weight ~= tonumber(arg(1 + n)) or ends <= now then
        return {epoch, "lost"}
    end
end
even_if_full()
for _, at in ipairs(resources) do
    call("ZADD", at.holders, "XX", LEASE_END, holder)
end
return {epoch, "ok"}
