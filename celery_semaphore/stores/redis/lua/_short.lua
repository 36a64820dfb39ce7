-- Begin a script for the common case. It answers 0, having changed nothing, where anything else is to be decided: then
-- the caller makes the long call, which decides anew. Each word and each function costs time, so these scripts have
-- few: what they share with long ones stands in both.
--   KEYS[1] epoch  2 index  3 holders  4 ledger  5 released  6 tickets; see _call.lua
--   ARGV[1] what the caller knows: the epoch, the lease, how long the grant of a sent message lasts, and the run_id of
--           the server at its connection, with blanks between them
--   ARGV[2] holder  3 limit that an acquire declares, or empty  4 now; without it the server's clock counts
--   EPOCH   hash  calm: for calls of which _prelude.lua notes nothing. In 16 digits each, since when and until when
--                 it holds, when the windows of declared limits end, and the lease; 1 if there are limits or pauses of
--                 operators, else 0; then what such a caller knows, as in ARGV[1]
local call = redis.call
local EPOCH, INDEX, HOLDERS, LEDGER, RELEASED, TICKETS = unpack(KEYS, 1, 6)
local KNOWN, HOLDER = ARGV[1], ARGV[2]

local NOW = ARGV[4] -- 16 digits, which are compared as text
if not NOW then
    local time = call("TIME")
    NOW = time[1] .. (#time[2] == 6 and time[2] or ("00000" .. time[2]):sub(-6))
end

-- Nothing of _prelude.lua concerns this call if its record says so, which a call of a long script has left (A17).
local STORED = call("HMGET", EPOCH, "calm", "format")
local CALM = STORED[1]
if not CALM or STORED[2] ~= FORMAT or CALM:sub(66) ~= KNOWN -- A1; A2, A16
    or NOW < CALM:sub(1, 16) or NOW >= CALM:sub(17, 32) then -- A17
    return 0
end

local LEASE, NUMBER = tonumber(CALM:sub(49, 64)), tonumber(NOW)
local END = NUMBER + LEASE
