-- Return what operators decided. It writes nothing, so it begins no epoch.
-- Returns {the epoch that the caller knows, or nothing: see totals.lua, now, {name, or PAUSE and name, entry...}}
local written_by = call("HGET", EPOCH, "format")
if written_by ~= FORMAT and (tonumber(written_by) or 0) > tonumber(FORMAT) then -- it may have another layout
    return {err = "NEWERFORMAT " .. written_by}
end
return {tonumber(ARGV[5]) or false, now, call("HGETALL", LIMITS)}
