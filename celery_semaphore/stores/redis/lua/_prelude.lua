-- What the store remembers of itself.

-- A missing record, or one of another server run, means that permits may have been forgotten. So does a caller that
-- has seen a newer epoch: it was with a server that took over meanwhile, and came back to this one. The first caller
-- of a store that was never used waits for nothing; if a caller knew an older epoch, even later, the living first put
-- their permits back.
local memory = call("HMGET", EPOCH, "id", "run_id", "grace_until", "limited", "format")
if memory[5] ~= FORMAT and (tonumber(memory[5]) or 0) > tonumber(FORMAT) then -- nothing may be written here
    return {err = "NEWERFORMAT " .. memory[5]}
end
local epoch, grace_until, limited = tonumber(memory[1]), tonumber(memory[3]), memory[4] == "1"
if memory[1] ~= ARGV[5] or memory[2] ~= ARGV[4] then -- else nothing happened since the caller was here
    local run, known, recovered = memory[2], tonumber(ARGV[5]), now + math.floor(LEASE * 2 / 3)
    local restarted = run and run ~= "" and ARGV[4] ~= "" and run ~= ARGV[4]
    if not epoch or restarted or known and known > epoch then
        even_if_full()
        grace_until = (known or epoch) and recovered or 0
        epoch = math.max(now, (epoch or 0) + 1, (known or 0) + 1)
        memory[1] = string.format("%.0f", epoch)
        limited = call("EXISTS", LIMITS) == 1
        call("HSET", EPOCH, "id", epoch, "run_id", ARGV[4], "created", now, "limited", limited and 1 or 0,
            "format", memory[5] or FORMAT)
    elseif known and known ~= epoch and grace_until == 0 and now < call("HGET", EPOCH, "created") + LEASE then
        grace_until = recovered
    end
    if run == "" and ARGV[4] ~= "" then -- its first caller may not ask for it: all others shall notice a restart
        even_if_full()
        call("HSET", EPOCH, "run_id", ARGV[4])
    end
    if grace_until ~= tonumber(memory[3]) then
        even_if_full()
        call("HSET", EPOCH, "grace_until", grace_until)
    end
end
local EPOCH_WRITTEN = memory[1] -- as records have it: comparing texts costs less than reading numbers

-- The server's clock stepped back: what lies further ahead than this is cut when it is seen, or all would wait for the
-- length of the step. Three times what it can be, for the callers' leases may differ while a new one is deployed.
local function furthest()
    return now + 3 * math.max(LEASE, tonumber(ARGV[2]))
end
if grace_until > now and grace_until > furthest() then
    grace_until = furthest()
    even_if_full()
    call("HSET", EPOCH, "grace_until", grace_until)
end
local in_grace = now < grace_until
