-- Read the epoch of a store with a newer format, which this release must not write.
local EPOCH_WRITTEN, lease_kept, take_up_kept = unpack(call("HMGET", EPOCH, "id", "lease", "take_up"))
local epoch = tonumber(EPOCH_WRITTEN) or 0
if lease_kept and is_other_lease(lease_kept, take_up_kept) then
    return other_lease(lease_kept, take_up_kept) -- A16
end
