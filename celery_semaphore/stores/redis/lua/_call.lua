-- Begin every script: read the clock, and name the keys and arguments.
--   KEYS[1] epoch    hash  id, run_id, created, grace_until; limited: 1 if there are limits or pauses of operators;
--                          format: of all these keys; lease, take_up: in force for all callers;
--                          slow, slow_until: the longest lease that some may still renew by;
--                          called: when a call came last; silent_since, awaited_until: see _prelude.lua;
--                          calm: see _short.lua
--   KEYS[2] limits   hash  resource or semaphore -> "<limit> <when>" that an operator set; and PAUSE and that name ->
--                          "<its end> <its beginning>", also of a pause that lasts until it is resumed: decisions.py
--   KEYS[3] index    zset  resource in use -> when it must be reaped
--   KEYS[4] names    hash  name of a parked message -> resource and nonce of its wait, a line feed between them
--   KEYS[5] sessions zset  session -> when it asked last; it is awake for a lease after that
--   KEYS[6] grants   zset  session, then a wait of it that has a grant, as in `names`, a line feed between them -> 0
--   KEYS[7] ends     zset  the same -> when that grant ends
--   KEYS[8] rooms    hash  session -> how many grants its process can use; without an entry there is no bound
--   KEYS[9] claims   zset  nonce of a wait, AFTER_NONCE, resources and weights of its claims, and after a blank
--                          these claims as the caller wrote them -> 0; so the waits of one task stand together
--   KEYS[10...]      eleven for each declared resource: see _permits.lua and _line.lua
--   ARGV[1] lease, ARGV[2] how long the grant of a sent message lasts: as the caller knows them (A16)
--   ARGV[3] now; empty for the server's clock        ARGV[4] run_id of the server at the caller's connection
--   ARGV[5] the newest epoch that the caller knows   ARGV[6] n, then the names of the n declared resources
-- Times are microseconds, which a double holds exactly until the year 2255; call() writes all digits of a number,
-- Lua's own conversion only 14. Each answer begins with the epoch.
--
-- All parts of a script are one chunk. Each shared part, `_*.lua`, defines one table with its name, so a call names its
-- file: line.enqueue() is in _line.lua. No other part may use its locals; `python -m tests.lua` checks that. The
-- exceptions are the names that every part may read:
--   FORMAT, GRANT_S, SEEN_FOR_S, CONSUMED_FOR_S, BROKER_FOR_S, KEPT_ROOM (microseconds), KEPT_ROOMS, from
--   the first line of each script: scripts.py
--   all locals of this file
--   epoch, EPOCH_WRITTEN, limited, slowest, grace_until, in_grace, furthest, permits_ended_by, is_over: of
--   _prelude.lua
local call = redis.call
local COMMON = 9 -- number of keys before those of the resources
local EPOCH, LIMITS, INDEX, NAMES, SESSIONS, GRANTS, ENDS, ROOMS, CLAIMS = unpack(KEYS, 1, COMMON)
local LEASE = tonumber(ARGV[1])
local RANK = #"255.1700000000000000" -- length of a ticket's rank: its urgency and its place
local AT_ONCE = 50 -- overdue entries that one call ends: other calls wait for it

-- The prefix of a pause's name in the hash of limits. No name has this character.
local PAUSE = ":"

-- The prefix of a grant among the holders, where the same nonce may have a permit. No UTF-8 text has this byte, so no
-- holder's name begins with it.
local GRANT = "\255"
local AFTER_NONCE = "\255" -- no nonce has it either

local now = tonumber(ARGV[3])
if not now then
    local time = call("TIME")
    now = time[1] * 1000000 + time[2]
end
local LEASE_END = string.format("%.0f", now + LEASE) -- as text: call() would convert a number each time

local resources = {}
for n = 1, tonumber(ARGV[6]) do
    local k = COMMON + 11 * (n - 1)
    resources[n] = {
        name = ARGV[6 + n],
        holders = KEYS[k + 1], ledger = KEYS[k + 2], weights = KEYS[k + 3], released = KEYS[k + 4],
        transit = KEYS[k + 5], line = KEYS[k + 6], due = KEYS[k + 7],
        tickets = KEYS[k + 8], payloads = KEYS[k + 9], outbox = KEYS[k + 10], aside = KEYS[k + 11],
    }
end

local given = 6 + #resources -- the operation's own arguments follow
local function arg(n)
    return ARGV[given + n]
end

-- Return whether the store keeps other durations than the call brings; comparing texts costs less than parsing numbers.
local function is_other_lease(lease, take_up)
    return lease ~= ARGV[1] or take_up ~= ARGV[2]
end

-- Return the error of a call with other durations than those that the store keeps (A16). The caller repeats it with
-- these: so no caller's own ones count for the permits of others.
local function other_lease(lease, take_up)
    return {err = "OTHERLEASE " .. lease .. " " .. take_up}
end

-- Let the script run on a server without free memory, which refuses a script if its first write takes memory. Call it
-- first in scripts that keep a permit or free memory.
local function even_if_full()
    call("PERSIST", EPOCH)
end
