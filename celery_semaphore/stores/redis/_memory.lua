-- What every script begins with: the time, what the store remembers, and the keys it was given.
--   KEYS[1] epoch    hash  id, run_id, created, grace_until: the store's memory
--   KEYS[2] limits   hash  resource or semaphore -> the limit an operator set
--   KEYS[3] index    zset  resource in use -> when it needs a look
--   KEYS[4...]       ten of each declared resource: see _permits.lua and _line.lua
--   ARGV[1] now; empty for the server's clock        ARGV[2] run_id of the server at the caller's connection
--   ARGV[3] the newest epoch the caller has seen     ARGV[4] lease
--   ARGV[5] how long a grant waits to be taken up    ARGV[6] n, then the names of the n declared resources
-- Times are microseconds, which a double holds exactly until the year 2255. Each answer begins with the epoch.
local call = redis.call
local EPOCH, LIMITS, INDEX = KEYS[1], KEYS[2], KEYS[3]
local LEASE, TAKE_UP = tonumber(ARGV[4]), tonumber(ARGV[5])
local AT_ONCE = 50 -- overdue entries ended in one call: the server must not stand still for a crowd

local function clock()
    if ARGV[1] ~= "" then
        return tonumber(ARGV[1])
    end
    local time = call("TIME")
    return time[1] * 1000000 + time[2]
end

local function whole(number) -- Lua's own conversion keeps 14 digits; a microsecond needs 16
    return string.format("%.0f", number)
end

local now = clock()
local resources, by_name = {}, {}
for n = 1, tonumber(ARGV[6]) do
    local k = 3 + (n - 1) * 10
    local resource = {
        name = ARGV[6 + n],
        holders = KEYS[k + 1], permits = KEYS[k + 2], weights = KEYS[k + 3], released = KEYS[k + 4],
        waiters = KEYS[k + 5], parked = KEYS[k + 6], due = KEYS[k + 7],
        tickets = KEYS[k + 8], payloads = KEYS[k + 9], meta = KEYS[k + 10],
    }
    resources[n], by_name[resource.name] = resource, resource
end

local given = 6 + #resources -- an operation's own arguments follow
local function arg(n)
    return ARGV[given + n]
end

-- A missing record, or one of another server run, means that permits may have been forgotten. Who comes
-- first on a store that nobody knew waits for nothing; if anybody knew an older memory, even later, the
-- living first put their permits back.
local function recall()
    local id, run, created, grace = unpack(call("HMGET", EPOCH, "id", "run_id", "created", "grace_until"))
    local known, recovered = tonumber(ARGV[3]), now + math.floor(LEASE * 2 / 3)
    local restarted = run and run ~= "" and ARGV[2] ~= "" and run ~= ARGV[2]
    if not id or restarted then
        grace = (known or id) and recovered or 0
        id = math.max(now, (tonumber(id) or 0) + 1, (known or 0) + 1)
        call("HSET", EPOCH, "id", whole(id), "run_id", ARGV[2], "created", whole(now))
        call("HSET", EPOCH, "grace_until", whole(grace))
    elseif known and known ~= tonumber(id) and grace == "0" and now < created + LEASE then
        grace = recovered
        call("HSET", EPOCH, "grace_until", whole(grace))
    end
    return tonumber(id), tonumber(grace)
end

local epoch, grace_until = recall()
local in_grace = now < grace_until
