-- Check the epoch of the store.

-- A2: begin a new epoch if the record is missing or of another server run, since permits may be lost (E16). The same
-- holds if the caller knows a newer epoch: it was connected to a server that took over meanwhile, and came back to this
-- one. The first caller of an unused store needs no grace. If a caller knew an older epoch, even later, a grace lets
-- living holders restore their permits first.
local memory = call("HMGET", EPOCH, "id", "run_id", "grace_until", "limited", "format",
    "lease", "take_up", "slow", "slow_until", "called", "silent_since", "awaited_until", "calm")
if memory[5] ~= FORMAT and (tonumber(memory[5]) or 0) > tonumber(FORMAT) then -- this release must not write here
    return {err = "NEWERFORMAT " .. memory[5]} -- A1, Q1
end
local epoch, grace_until, limited = tonumber(memory[1]), tonumber(memory[3]), memory[4] == "1"
local known_epoch = tonumber(ARGV[5])
-- Whether the caller knew what the first one of this epoch did not.
local is_late = known_epoch and epoch and known_epoch < epoch and grace_until == 0
    and now < call("HGET", EPOCH, "created") + LEASE
if is_other_lease(memory[6], memory[7]) then -- A16
    if memory[6] and not is_late then
        return other_lease(memory[6], memory[7])
    end
    even_if_full()
    call("HSET", EPOCH, "lease", ARGV[1], "take_up", ARGV[2])
end
-- A16: after the lease became shorter, holders may renew by the longer one until their next call.
local slowest = now < (tonumber(memory[9]) or 0) and math.max(LEASE, tonumber(memory[8])) or LEASE
local GRACE = math.floor(slowest * 2 / 3) -- two renewals
if memory[1] ~= ARGV[5] or memory[2] ~= ARGV[4] then -- else nothing has changed since the caller's last call
    local run, recovered = memory[2], now + GRACE
    local restarted = run and run ~= "" and ARGV[4] ~= "" and run ~= ARGV[4]
    if not epoch or restarted or known_epoch and known_epoch > epoch then
        even_if_full()
        grace_until = (known_epoch or epoch) and recovered or 0
        epoch = math.max(now, (epoch or 0) + 1, (known_epoch or 0) + 1)
        memory[1], memory[2] = string.format("%.0f", epoch), ARGV[4]
        limited = call("EXISTS", LIMITS) == 1
        call("HSET", EPOCH, "id", epoch, "run_id", ARGV[4], "created", now, "limited", limited and 1 or 0,
            "format", memory[5] or FORMAT)
    elseif is_late then
        grace_until = recovered
    end
    if run == "" and ARGV[4] ~= "" then -- the first caller may not know the run
        even_if_full()
        memory[2] = ARGV[4]
        call("HSET", EPOCH, "run_id", ARGV[4])
    end
    if grace_until ~= tonumber(memory[3]) then
        even_if_full()
        call("HSET", EPOCH, "grace_until", grace_until)
    end
end
local EPOCH_WRITTEN = memory[1] -- as in the records: comparing texts costs less than parsing numbers

-- Return the latest time that a lease or a grant can end. After the server's clock stepped back, later times are cut to
-- this one: otherwise all would wait for the length of the step. It allows three times the longest duration, for
-- a clock that only stutters.
local function furthest()
    return now + 3 * math.max(slowest, tonumber(ARGV[2]))
end
if grace_until > now and grace_until > furthest() then
    grace_until = furthest()
    even_if_full()
    call("HSET", EPOCH, "grace_until", grace_until)
end
local in_grace = now < grace_until

-- A17: note the time of the call, at most ten times in a lease. If no call came for longer than two renewals take, no
-- holder could renew: then no permit that was alive when the silence began ends for the length of a grace. A holder may
-- not have renewed by a longer lease yet.
local called, silent_since, awaited_until = tonumber(memory[10]), tonumber(memory[11]) or 0, tonumber(memory[12]) or 0
if not called or math.abs(now - called) >= LEASE / 10 then
    local is_changed = called and called < (tonumber(memory[9]) or 0)
    local shortest = is_changed and math.min(LEASE, tonumber(memory[8])) or LEASE
    if called and now < called then -- the clock stepped back
        awaited_until = 0
    elseif called and now - called > math.floor(shortest * 2 / 3) then
        silent_since, awaited_until = called, now + GRACE
    end
    even_if_full()
    call("HSET", EPOCH, "called", now, "silent_since", silent_since, "awaited_until", awaited_until)
    called = now
end
local permits_ended_by = now < awaited_until and silent_since or now

-- Write the record by which short scripts see that nothing of the above concerns a call, see _short.lua. It ends when a
-- call must be noted again (A17), or with the windows of declared limits (A4). No grace has one: so a new epoch, or
-- another run of the server, ends that of the epoch before.
local calm = memory[13]
if in_grace then
    if calm then
        call("HDEL", EPOCH, "calm")
    end
elseif not (calm and tonumber(calm:sub(1, 16)) <= now and now < tonumber(calm:sub(17, 32)))
    and math.min(epoch, now) >= 1e15 then -- all have 16 digits
    local window_end = now - now % LEASE + LEASE
    local lasts_until = math.min(window_end, math.ceil(called + LEASE / 10))
    local knows = table.concat({EPOCH_WRITTEN, ARGV[1], ARGV[2], memory[2] or ""}, " ")
    -- Not call(): a full server refuses this, and must go on to refuse what else the script would write.
    redis.pcall("HSET", EPOCH, "calm", string.format("%.0f%.0f%.0f%016.0f%d%s",
        now, lasts_until, window_end, LEASE, limited and 1 or 0, knows))
end

-- Return whether a permit or a grant with this end is over. Nothing ends during the grace: the server was away, so no
-- holder could renew and no session could ask.
local function is_over(ends, is_grant)
    return not in_grace and ends <= (is_grant and now or permits_ended_by)
end
