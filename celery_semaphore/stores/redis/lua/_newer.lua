-- A store of a newer format than this release reads: its record is read, and never written.
local EPOCH_WRITTEN = call("HGET", EPOCH, "id")
local epoch = tonumber(EPOCH_WRITTEN) or 0
