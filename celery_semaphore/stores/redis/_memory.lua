-- What every script begins with: the time, what the store remembers, and the keys it was given.
--   KEYS[1] epoch    hash  id, run_id, created, grace_until: the store's memory; limited: 1 if there are limits
--   KEYS[2] limits   hash  resource or semaphore -> the limit an operator set
--   KEYS[3] index    zset  resource in use -> when it needs a look
--   KEYS[4] names    hash  name of a parked message -> resource and ticket, with a line feed between them
--   KEYS[5...]       eleven of each declared resource: see _permits.lua and _line.lua
--   ARGV[1] lease                                    ARGV[2] how long a grant waits to be taken up
--   ARGV[3] now; empty for the server's clock        ARGV[4] run_id of the server at the caller's connection
--   ARGV[5] the newest epoch the caller has seen     ARGV[6] n, then the names of the n declared resources
-- Times are microseconds, which a double holds exactly until the year 2255; call() writes all digits of a number,
-- Lua's own conversion only 14. Each answer begins with the epoch.
local call = redis.call
local EPOCH, LIMITS, INDEX, NAMES = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local LEASE = tonumber(ARGV[1])

local now = tonumber(ARGV[3])
if not now then
    local time = call("TIME")
    now = time[1] * 1000000 + time[2]
end

local resources = {}
for n = 1, tonumber(ARGV[6]) do
    local k = 11 * n - 7
    resources[n] = {
        name = ARGV[6 + n],
        holders = KEYS[k + 1], ledger = KEYS[k + 2], weights = KEYS[k + 3], released = KEYS[k + 4],
        waiters = KEYS[k + 5], parked = KEYS[k + 6], due = KEYS[k + 7],
        tickets = KEYS[k + 8], payloads = KEYS[k + 9], outbox = KEYS[k + 10], aside = KEYS[k + 11],
    }
end

local given = 6 + #resources -- an operation's own arguments follow
local function arg(n)
    return ARGV[given + n]
end

-- A full server refuses a script at its first write, if that takes memory. What keeps a permit or gives memory back
-- begins with one that takes none.
local function even_if_full()
    call("PERSIST", EPOCH)
end

-- A missing record, or one of another server run, means that permits may have been forgotten. So does a caller that
-- has seen a newer epoch: it was with a server that took over meanwhile, and came back to this one. The first caller
-- of a store that was never used waits for nothing; if a caller knew an older epoch, even later, the living first put
-- their permits back.
local memory = call("HMGET", EPOCH, "id", "run_id", "created", "grace_until", "limited")
local epoch, grace_until, limited = tonumber(memory[1]), tonumber(memory[4]), memory[5] == "1"
if memory[1] ~= ARGV[5] or memory[2] ~= ARGV[4] then -- else nothing happened since the caller was here
    local run, known, recovered = memory[2], tonumber(ARGV[5]), now + math.floor(LEASE * 2 / 3)
    local restarted = run and run ~= "" and ARGV[4] ~= "" and run ~= ARGV[4]
    if not epoch or restarted or known and known > epoch then
        even_if_full()
        grace_until = (known or epoch) and recovered or 0
        epoch = math.max(now, (epoch or 0) + 1, (known or 0) + 1)
        limited = call("EXISTS", LIMITS) == 1
        call("HSET", EPOCH, "id", epoch, "run_id", ARGV[4], "created", now, "limited", limited and 1 or 0)
    elseif known and known ~= epoch and grace_until == 0 and now < memory[3] + LEASE then
        grace_until = recovered
    end
    if grace_until ~= tonumber(memory[4]) then
        even_if_full()
        call("HSET", EPOCH, "grace_until", grace_until)
    end
end
local in_grace = now < grace_until

-- In use: no expiry, or volatile-* eviction would take what nobody may lose.
local function use(at, look)
    call("PERSIST", at.ledger)
    call("ZADD", INDEX, look and "LT" or "NX", look or now + LEASE, at.name)
end

-- Idle: gone after a while.
local function lay_down(at)
    call("PEXPIRE", at.ledger, math.ceil(LEASE / 100)) -- ten leases, in ms
    call("ZREM", INDEX, at.name)
end

local function settle(at, look)
    if call("EXISTS", at.holders, at.tickets) == 0 then
        lay_down(at)
    else
        use(at, look)
    end
end
