-- Count what is at many resources, for metrics. It writes nothing, so it begins no epoch, and it reads no record of a
-- wait. Each key costs time, so a caller gives four for each resource first, and all nine for those with waits.
--   keys   after the common ones, of each resource: holders, ledger, weights, tickets; perhaps payloads, outbox, and
--          its lines: waiters, parked, aside; see _permits.lua and _line.lua
--   arg 1  number of keys of each resource, then the names of the resources
-- Returns {the epoch that the caller knows, or nothing: it must not learn of one that it does not enter,
--          a text with one line for each resource: limit or -, 1 if set by an operator, held, granted, and where
--          there are waits: parked, reachable, in transit, set aside, us since the oldest wait began or -, messages to
--          send, us since the oldest of their grants or -; instead "?" where there are waits, but not all keys}
local GRANT = "\255" -- see _released.lua
local memory = call("HMGET", EPOCH, "grace_until", "limited", "format")
if memory[3] ~= FORMAT and (tonumber(memory[3]) or 0) > tonumber(FORMAT) then -- it may have another layout
    return {err = "NEWERFORMAT " .. memory[3]}
end
local in_grace, limited = now < (tonumber(memory[1]) or 0), memory[2] == "1"
local NOW = string.format("%.0f", now)
local ALIVE = in_grace and "-inf" or "(" .. NOW -- nothing ends during the grace
local EACH = tonumber(arg(1))

local function is_grant(name)
    return name:byte() == 255
end

local function by_operator(name)
    local set = call("HMGET", LIMITS, name, name:match("^[^/]*"))
    return set[1] or set[2]
end

-- Return the weights of the permits and of the grants.
local function weigh(names, weights)
    local held, granted, heavy, found = 0, 0, {}, call("HGETALL", weights)
    for n = 1, #found, 2 do
        heavy[found[n]] = tonumber(found[n + 1])
    end
    for _, name in ipairs(names) do
        if is_grant(name) then
            granted = granted + (heavy[name] or 1)
        else
            held = held + (heavy[name] or 1)
        end
    end
    return held, granted
end

-- Return the nonces of all grants, with those that nothing has ended yet: their waits are in no line.
local function granted_nonces(names, holders)
    local nonces = {}
    local overdue = in_grace and {} or call("ZRANGEBYSCORE", holders, "-inf", NOW)
    for _, some in ipairs({names, overdue}) do
        for _, name in ipairs(some) do
            if is_grant(name) then
                table.insert(nonces, name:sub(#GRANT + 1))
            end
        end
    end
    return nonces
end

local function since(first)
    return first and string.format("%.0f", math.max(0, now - first)) or "-" -- the clock may step back
end

-- Return when the oldest wait of a line began. A line is in the order of priority, then of place: so the oldest one is
-- the first of its priority.
local function oldest_in(line, before)
    local ticket = call("ZRANGE", line, 0, 0)[1]
    while ticket do
        local urgency, place = ticket:match("^(%d+)%.(%d+)")
        before = math.min(before or math.huge, tonumber(place))
        ticket = call("ZRANGEBYLEX", line, string.format("[%03d", urgency + 1), "+", "LIMIT", 0, 1)[1]
    end
    return before
end

-- Return the number of messages to send, and the token of the oldest grant among them. An entry with a token counts
-- only while the grant lasts: after that the wait is in line again.
local function outgoing(outbox, ledger, nonces)
    local count, oldest = call("ZCOUNT", outbox, 0, 0), nil
    for _, nonce in ipairs(nonces) do
        local token = tonumber(call("ZSCORE", outbox, nonce) or 0)
        if token > 0 and call("HGET", ledger, string.format("for:%.0f", token)) == GRANT .. nonce then
            count, oldest = count + 1, math.min(oldest or token, token)
        end
    end
    return count, oldest
end

-- Count the waits: T2 to T6 of docs/maintain/architecture.md. Each one has a record. One without a message is in
-- transit, or has a grant that its session must ask for, or is reachable: so no wait need be looked at.
local function waits(k, names)
    local holders, ledger, tickets, payloads, outbox = KEYS[k], KEYS[k + 1], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
    local nonces, oldest, lines = granted_nonces(names, holders), nil, {}
    for n = 1, 3 do
        lines[n] = call("ZCARD", KEYS[k + 5 + n])
        if lines[n] > 0 then
            oldest = oldest_in(KEYS[k + 5 + n], oldest)
        end
    end
    local messages = call("HLEN", payloads)
    local reachable = call("HLEN", tickets) - messages - lines[1]
    for _, nonce in ipairs(nonces) do
        if call("HEXISTS", tickets, nonce) == 1 and call("HEXISTS", payloads, nonce) == 0 then
            reachable = reachable - 1
        end
    end
    local count, first = 0, nil
    if messages > 0 then
        count, first = outgoing(outbox, ledger, nonces)
    end
    return string.format(" %d %d %d %d %s %d %s", lines[2] + lines[3] - reachable, reachable, lines[1], lines[3],
        since(oldest), count, since(first))
end

-- Return the line of a resource: `k` is its first key.
local function totals(name, k)
    local names, granted = call("ZRANGEBYSCORE", KEYS[k], ALIVE, "+inf"), 0
    for n = 1, #names do
        if is_grant(names[n]) then
            granted = granted + 1
        end
    end
    local held, set = #names - granted, limited and by_operator(name)
    local limit = (set or call("HGET", KEYS[k + 1], "limit") or "-") .. (set and " 1 " or " 0 ")
    if call("EXISTS", KEYS[k + 2], KEYS[k + 3]) == 0 then
        return limit .. held .. " " .. granted
    end
    local waiting = call("EXISTS", KEYS[k + 3]) == 1
    if waiting and EACH == 4 then
        return "?"
    end
    held, granted = weigh(names, KEYS[k + 2])
    return limit .. string.format("%.0f %.0f", held, granted) .. (waiting and waits(k, names) or "")
end

local said = {}
for n = 1, #ARGV - given - 1 do
    said[n] = totals(arg(n + 1), COMMON + EACH * (n - 1) + 1)
end
return {tonumber(ARGV[5]) or false, table.concat(said, "\n")}
