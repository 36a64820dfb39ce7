-- Of renew, in a store of a newer format: move the end of a lease that this release wrote in this epoch, and write nothing
-- else. What the store forgot is not put back, nor confirmed in a new epoch: that would be a new record in an old format,
-- and whether it fits only newer workers can tell.
--   arg 1 holder, then the weight of each resource
-- Returns {epoch, "ok" | "lost"}
local holder = arg(1)
for n, at in ipairs(resources) do
    local record = call("HGET", at.ledger, "of:" .. holder)
    local permit = record and parsed(record)
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
