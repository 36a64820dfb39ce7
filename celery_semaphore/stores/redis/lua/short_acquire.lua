-- Grant a permit of weight 1 on one resource to a new holder without a ticket, by its task's first message or none.
--   for the keys and arguments see _short.lua; KEYS[7] limits  8 weights  9 record of the task's messages, or none
-- Returns 0, or as acquire.lua
local DECLARED = ARGV[3]
local NAME = HOLDERS:sub(#EPOCH - 4, -9) -- of the resource: keys.py
local LEASE_END = string.format("%d%06d", END / 1000000, END % 1000000) -- "%.0f" takes longer
local WINDOW_END = CALM:sub(33, 48)
local FIELD = "of:" .. HOLDER
local FOUND = call("HMGET", LEDGER, "token", "limit", "kept", FIELD)
local LAST, RECORD = FOUND[1], FOUND[2]
if not LAST or FOUND[3] or FOUND[4] then -- C4 (kept room); A5, A6
    return 0
end
local TOKEN = LAST < NOW and NOW or string.format("%.0f", LAST + 1)

-- A4: the limit in force of those that were declared in this window and in the one before; see _limits.lua. Most
-- resources have one limit. Without a limit of its own this call declares nothing, and the windows may be over: the
-- smaller of both still is no higher than what is in force.
local LIMIT
if RECORD == DECLARED .. " " .. DECLARED .. " " .. WINDOW_END or RECORD == DECLARED .. "  " .. WINDOW_END then
    LIMIT = tonumber(DECLARED)
elseif RECORD then
    local low, before, ends = RECORD:match("^(%d+) (%d*) (%d+)$")
    if DECLARED ~= "" and (ends ~= WINDOW_END or tonumber(DECLARED) < tonumber(low)) then
        return 0
    end
    LIMIT = math.min(tonumber(low), tonumber(before) or math.huge)
elseif DECLARED ~= "" then
    return 0
end
local WHOLE = NAME:find("/", 1, true) and NAME:match("^[^/]*")
local FOR_ALL_KEYS = LIMIT and WHOLE and call("HGET", EPOCH, "limit:" .. WHOLE)
if FOR_ALL_KEYS then -- A18: the smallest of its windows, even where the long call knows that one of them is over
    local low, before = FOR_ALL_KEYS:match("^(%d+) (%d*) ")
    LIMIT = math.min(LIMIT, tonumber(low), tonumber(before) or math.huge)
end
if CALM:sub(65, 65) == "1" then -- O1; ":" is PAUSE of _call.lua
    local whole = WHOLE or NAME
    local set = call("HMGET", KEYS[7], NAME, whole, ":" .. NAME, ":" .. whole)
    for n = 3, 4 do
        if set[n] and tonumber(set[n]:match("^%d+")) > NUMBER then -- C1
            return 0
        end
    end
    local by_operator = set[1] or set[2]
    LIMIT = by_operator and tonumber(by_operator:match("^%d+")) or LIMIT
end
if not LIMIT then -- nothing was declared lately, and no operator set one
    return 0
end

if call("ZSCORE", RELEASED, HOLDER) then -- A7
    return 0
end
local PRESENT, OCCUPIED = call("EXISTS", HOLDERS, TICKETS, unpack(KEYS, 8)), 0
if PRESENT > 0 then -- most resources have no holder
    OCCUPIED = call("ZCARD", HOLDERS)
end
if OCCUPIED >= LIMIT -- C1, C4
    or PRESENT > math.min(OCCUPIED, 1) then -- C5; weights; an earlier task with the same id
    return 0
end

-- A14, E9
local OWN_EPOCH, STAMP = KNOWN:sub(1, 16), TOKEN .. " " .. NOW
call("ZADD", HOLDERS, LEASE_END, HOLDER) -- first: a server without free memory refuses it
call("HSET", LEDGER, "token", TOKEN, FIELD, STAMP .. " 1 " .. OWN_EPOCH .. " ")
if OCCUPIED == 0 then -- else it is marked already; see _index.lua
    call("PERSIST", LEDGER)
    call("ZADD", INDEX, "NX", LEASE_END, NAME)
end
return OWN_EPOCH .. " " .. STAMP .. " " .. LEASE_END
