-- Read the record of the epoch for a call that writes nothing, so it begins none.
local memory = call("HMGET", EPOCH, "grace_until", "limited", "format", "silent_since", "awaited_until")
if memory[3] ~= FORMAT and (tonumber(memory[3]) or 0) > tonumber(FORMAT) then -- it may have another layout
    return {err = "NEWERFORMAT " .. memory[3]}
end
local in_grace, limited = now < (tonumber(memory[1]) or 0), memory[2] == "1"
local silent_since, awaited_until = tonumber(memory[4]), tonumber(memory[5]) or 0
local permits_ended_by = now < awaited_until and silent_since or now -- A17
