-- A store of a newer format than this release reads: its record is read, and never written.
local epoch = tonumber(call("HGET", EPOCH, "id")) or 0
