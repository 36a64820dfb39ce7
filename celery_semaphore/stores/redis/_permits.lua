-- Permits and grants of one resource.
--   holders   zset  holder, or ticket that was granted -> end of its lease
--   permits   hash  holder or ticket -> "token since weight by"; by is empty for a permit, and says whose
--                   call handed the permit on for a grant (behind a "g")
--   weights   hash  holder or ticket -> weight, of those that do not weigh 1
--   released  zset  holder that never runs again -> when that may be forgotten
--   meta      hash  token (the last one), limit (the last one declared), mean (held lately),
--                   learnt (how many made the mean)

-- Derived from the holders at each call: a counter would drift with the first lost answer.
local function occupied(at)
    local sum = call("ZCARD", at.holders)
    for _, weight in ipairs(call("HVALS", at.weights)) do
        sum = sum + weight - 1
    end
    return sum
end

local function meta(at)
    if not at.known then
        local token, limit, mean = unpack(call("HMGET", at.meta, "token", "limit", "mean"))
        at.token, at.declared, at.mean, at.known = tonumber(token) or 0, tonumber(limit), tonumber(mean), true
    end
    return at
end

local function by_operator(at)
    local set = call("HMGET", LIMITS, at.name, at.name:match("^[^/]*"))
    return tonumber(set[1] or set[2])
end

local function limit_of(at, declared)
    return by_operator(at) or meta(at).declared or declared
end

local function read(at, name)
    local record = call("HGET", at.permits, name)
    if record then
        local token, since, weight, by = record:match("^(%d+) (%d+) (%d+) (.*)$")
        local ends = tonumber(call("ZSCORE", at.holders, name))
        local permit = {token = tonumber(token), since = tonumber(since), weight = tonumber(weight)}
        permit.by, permit.ends = by, ends
        return ends and permit
    end
end

local function write(at, name, weight, permit, ends)
    call("ZADD", at.holders, ends, name)
    local record = string.format("%.0f %.0f %d ", permit.token, permit.since, weight) .. permit.by
    call("HSET", at.permits, name, record)
    if weight ~= 1 then
        call("HSET", at.weights, name, weight)
    end
end

local function erase(at, name)
    call("ZREM", at.holders, name)
    call("HDEL", at.permits, name)
    call("HDEL", at.weights, name)
end

-- Larger than every token before it on all these resources, whatever became of their metas or the clock.
local function new_token(claims)
    local token = now
    for _, claim in ipairs(claims) do
        token = math.max(token, meta(claim.at).token + 1)
    end
    for _, claim in ipairs(claims) do
        claim.at.token = token
        call("HSET", claim.at.meta, "token", whole(token))
    end
    return token
end

-- Remembered for one lease: after a lease without a renewal the holder itself takes its permit for lost,
-- so no honest renewal or acquire is on its way any more. Answers whether it is the first time.
local function bury(at, holder)
    local old = call("ZRANGEBYSCORE", at.released, "-inf", now, "LIMIT", 0, AT_ONCE)
    if #old > 0 then
        call("ZREM", at.released, unpack(old))
    end
    local new = call("ZADD", at.released, now + LEASE, holder)
    call("PEXPIRE", at.released, math.ceil(LEASE / 1000))
    return new == 1
end

local function buried(at, holder)
    return call("ZSCORE", at.released, holder)
end

-- What a holder has, or a ticket that was granted, and whether that is all of it, and alive: an overdue lease
-- is dead, even before it is dropped.
local function held(claims, name)
    local found, permit = 0, nil
    for _, claim in ipairs(claims) do
        local mine = read(claim.at, name)
        permit = mine or permit
        if mine and mine.weight == claim.weight and (mine.ends > now or in_grace) then
            found = found + 1
        end
    end
    return permit, found == #claims
end

-- In use: no expiry, or volatile-* eviction would take what nobody may lose.
local function use(at, look)
    call("PERSIST", at.meta)
    call("ZADD", INDEX, look and "LT" or "NX", look or now + LEASE, at.name)
end

-- In use or idle: then gone after a while.
local function settle(at, look)
    local idle = call("EXISTS", at.holders, at.waiters, at.parked) == 0
    if idle then
        call("PEXPIRE", at.meta, math.ceil(LEASE / 100)) -- ten leases, in ms
        call("ZREM", INDEX, at.name)
    else
        use(at, look)
    end
end
