-- Count what is at many resources: chapter 11 of docs/maintain/architecture.md. It writes nothing, so it begins no
-- epoch, and it looks at no wait. Each key costs time, so a caller gives four for each resource first, and all nine for
-- those with waits.
--   keys   after the common ones, of each resource: holders, ledger, weights, tickets; perhaps payloads, outbox, and
--          its lines: transit, line, aside; see _permits.lua and _line.lua
--   arg 1  number of keys of each resource
-- Returns {the epoch that the caller knows, or nothing: it must not learn of one that it does not enter,
--          a text with one line for each resource: limit or -, t if set by an operator, t if paused, kept room,
--          us that permits were held lately or -, held, granted, and where there are waits: parked, reachable, in
--          transit, set aside, us since the oldest wait began or -, messages to send, us since the oldest of their
--          grants or -; instead "?" where there are waits, but not all keys}
local LOWEST = 255 -- urgency of priority 0
local ALIVE = in_grace and "-inf" or string.format("(%.0f", now) -- nothing ends during the grace
local EACH = tonumber(arg(1))

local function is_grant(name)
    return name:byte() == 255
end

-- The texts of small numbers, made once: to make one takes as long as a command.
local text = setmetatable({}, {__index = function(known, number)
    known[number] = string.format("%.0f", number)
    return known[number]
end})

local function lasts(pause)
    return pause and tonumber(pause:match("^%d+")) > now
end

-- Return the limit that an operator set, and whether it is paused.
local function decided(name)
    local whole = name:match("^[^/]*")
    local set = call("HMGET", LIMITS, name, whole, PAUSE .. name, PAUSE .. whole)
    return set[1] or set[2], lasts(set[3]) or lasts(set[4])
end

-- T7: return the weight of the kept room that is not over.
local function kept_in(packed)
    local sum = 0
    for _, room in ipairs(packed and cmsgpack.unpack(packed) or {}) do
        sum = sum + (now < room.ends and room.weight or 0)
    end
    return sum
end

-- Return the limit that is in force without a pause, whether an operator set it, whether it is paused, the kept room,
-- and how long permits were held lately. The resource's name is a part of its keys.
local function known_of(ledger)
    local set, paused
    local name = ledger:match("^{[^}]*}:(.*):ledger$")
    if limited then
        set, paused = decided(name)
    end
    local known = call("HMGET", ledger, "limit", "kept", "mean")
    local declared = not set and limits.read({}, name, known[1])
    local limit = set and set:match("^%d+") or declared and text[declared] or "-"
    return limit .. (set and " t " or " f ") .. (paused and "t " or "f ")
        .. text[kept_in(known[2])] .. " " .. (known[3] or "-") .. " "
end

-- Return the number of permits and grants, where each weighs 1.
local function count_in(holders)
    local names, granted = call("ZRANGEBYSCORE", holders, ALIVE, "+inf"), 0
    for n = 1, #names do
        if names[n]:byte() == 255 then -- as is_grant(), which would take a tenth of the time of all this
            granted = granted + 1
        end
    end
    return #names - granted, granted
end

-- T1: return the weights of the permits and of the grants, and the nonces of all grants. Until a call ends an overdue
-- grant, its wait is in no line.
local function weigh(holders, weights)
    local held, granted, heavy, nonces = 0, 0, {}, {}
    local found, entries = call("HGETALL", weights), call("ZRANGE", holders, 0, -1, "WITHSCORES")
    for n = 1, #found, 2 do
        heavy[found[n]] = tonumber(found[n + 1])
    end
    for n = 1, #entries, 2 do
        local name = entries[n]
        local is_alive = in_grace or tonumber(entries[n + 1]) > (is_grant(name) and now or permits_ended_by)
        local weight = is_alive and (heavy[name] or 1) or 0
        if is_grant(name) then
            granted = granted + weight
            table.insert(nonces, name:sub(#GRANT + 1))
        else
            held = held + weight
        end
    end
    return held, granted, nonces
end

local function since(first)
    return first and string.format("%.0f", now - first) or "-"
end

-- T5: return when the oldest wait of a line began. A line is in the order of priority, then of place: so the oldest one
-- is the first of its priority.
local function oldest_in(line, before)
    local ticket = call("ZRANGE", line, 0, 0)[1]
    while ticket do
        local urgency, place = tonumber(ticket:sub(1, 3)), tonumber(ticket:match("^%d+%.(%d+)"))
        before = math.min(before or place, place)
        ticket = urgency < LOWEST
            and call("ZRANGEBYLEX", line, string.format("[%03d", urgency + 1), "+", "LIMIT", 0, 1)[1]
    end
    return before
end

-- T6: return the number of messages to send, and the token of the oldest grant among them. An entry with a token counts
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

-- T2 to T6: count the waits. Each one has a record. One without a message is in transit, or has a grant that its
-- session must ask for, or is reachable.
local function waits(k, records, nonces)
    local tickets, payloads, lines, oldest = KEYS[k + 3], KEYS[k + 4], {}, nil
    for n = 1, 3 do
        lines[n] = call("ZCARD", KEYS[k + 5 + n])
        if lines[n] > 0 then
            oldest = oldest_in(KEYS[k + 5 + n], oldest)
        end
    end
    local messages, count, first = call("HLEN", payloads), 0, nil
    local reachable = records - messages - lines[1]
    for _, nonce in ipairs(nonces) do
        if call("HEXISTS", tickets, nonce) == 1 and call("HEXISTS", payloads, nonce) == 0 then
            reachable = reachable - 1
        end
    end
    if messages > 0 then
        count, first = outgoing(KEYS[k + 5], KEYS[k + 1], nonces)
    end
    return string.format(" %d %d %d %d %s %d %s", lines[2] + lines[3] - reachable, reachable, lines[1], lines[3],
        since(oldest), count, since(first))
end

-- Return the line of the resource with this first key.
local function totals(k)
    if permits_ended_by == now and call("EXISTS", KEYS[k + 2], KEYS[k + 3]) == 0 then
        local held, granted = count_in(KEYS[k])
        return known_of(KEYS[k + 1]) .. text[held] .. " " .. text[granted]
    end
    local records = call("HLEN", KEYS[k + 3])
    if records > 0 and EACH == 4 then
        return "?"
    end
    local held, granted, nonces = weigh(KEYS[k], KEYS[k + 2])
    return known_of(KEYS[k + 1]) .. string.format("%.0f %.0f", held, granted)
        .. (records > 0 and waits(k, records, nonces) or "")
end

local said = {}
for k = COMMON + 1, #KEYS, EACH do
    said[#said + 1] = totals(k)
end
return {tonumber(ARGV[5]) or false, table.concat(said, "\n")}
