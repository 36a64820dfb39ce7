-- Read the epoch of a store with a newer format, which this release must not write.
local EPOCH_WRITTEN = call("HGET", EPOCH, "id")
local epoch = tonumber(EPOCH_WRITTEN) or 0
