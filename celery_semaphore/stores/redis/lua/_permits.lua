-- Permits and grants of one resource: the limit in force, how much of it is occupied, and admission.
--   holders   zset  holder, or GRANT and the nonce of a wait, see _call.lua -> end of its lease or grant
--   ledger    hash  "of:" and its name there -> "token since weight epoch by"; epoch is the one in which it was
--                   written or renewed last; by is "g" for a grant, followed by the rank of the wait, "r" for a permit
--                   that was restored lately (A21), else empty
--                   token (the largest one), limit (see _limits.lua), mean (held lately), mean_samples (how many
--                   permits the mean has counted, up to LATELY), latest (how long the last permit was held that was
--                   released while a task waited), too_heavy_above (the limit for which waits were set aside, see
--                   _line.lua), kept (see _kept_room.lua), "for:" and the token of a grant -> its name among the
--                   holders
--                   restored (the last epoch in which a permit was written that was restored lately)
--   weights   hash  holder or grant -> weight, if it is not 1
--   released  zset  holder that never runs again -> when this tombstone may be deleted
local permits = {}

-- Read the ledger's entries of the resource and, if a holder is given, of that one.
function permits.known(at, holder)
    if not at.token then
        local found = call("HMGET", at.ledger, "token", "limit", "mean", "of:" .. (holder or ""),
            "too_heavy_above", "kept")
        at.token = tonumber(found[1]) or 0
        limits.read(at, at.name, found[2])
        at.mean, at.record, at.too_heavy_above, at.kept = found[3], found[4], tonumber(found[5]), found[6]
    end
    return at
end

-- A4: note the limit that an acquire or a worker declares; 0 concerns this attempt only.
function permits.declare(at, limit, by)
    local before = at.declared or 0
    if limit and limit > 0 and limits.declare(at, limit, by) then
        at.raised = at.declared > before
        if at.lapses then
            index.mark_in_use(at, at.lapses)
        end
    end
end

-- O1: read, once in a call, the limit that an operator set, and when the pause ends that lasts now; of the pauses of
-- the key and of its semaphore the later end counts.
local function decided(at)
    if at.operator == nil then
        local whole = at.name:match("^[^/]*")
        local set = call("HMGET", LIMITS, at.name, whole, PAUSE .. at.name, PAUSE .. whole)
        for n = 1, 4 do
            set[n] = set[n] and tonumber(set[n]:match("^%d+"))
        end
        local ends = math.max(set[3] or 0, set[4] or 0)
        at.operator, at.paused_until, at.was_paused = set[1] or set[2] or false, ends > now and ends, ends > 0
    end
    return at
end

function permits.by_operator(at)
    return limited and decided(at).operator
end

-- Return the end of the pause that lasts now, or nothing.
function permits.paused_until(at)
    return limited and decided(at).paused_until or nil
end

-- Return when the limit in force rises by itself, or nothing: a pause ends (O3), or a lower limit lapses (A4).
function permits.rises_at(at)
    return permits.paused_until(at) or permits.known(at).lapses
end

-- Return whether a pause has ended here.
function permits.was_paused(at)
    return limited and decided(at).was_paused and not at.paused_until
end

-- Return what is in force without a pause.
function permits.limit_behind(at, declared)
    return permits.by_operator(at) or permits.known(at).declared or declared
end

-- Return the limit for permits that are restored, or nothing: no bound is known. A pause ends none. Without a limit of
-- an operator it is the higher one of what is in force and what this holder declares: the first to declare after a loss
-- may be a stray caller. One that declares none was admitted by a limit that may be lost.
function permits.limit_of_living(claim)
    local in_force = permits.by_operator(claim.at)
    return in_force or claim.own and math.max(claim.own, permits.known(claim.at).declared or 0)
end

-- Return the limit in force; O1: it is 0 during a pause.
function permits.limit_of(at, declared)
    return permits.paused_until(at) and 0 or permits.limit_behind(at, declared)
end

-- Sum the weights of all holders. A stored counter would drift with the first lost answer.
function permits.occupied(at)
    local sum = call("ZCARD", at.holders)
    if at.plain then -- all weights are 1
        return sum
    end
    for _, weight in ipairs(call("HVALS", at.weights)) do
        sum = sum + weight - 1
    end
    return sum
end

-- Return the reason why the limit refuses this claim, C1 to C4, or nil. Kept room (C4) or a wait in line (C5) may still
-- go first.
function permits.no_room(claim)
    claim.limit, claim.occupied = permits.limit_of(claim.at, claim.limit) or 0, permits.occupied(claim.at)
    if claim.own == 0 then claim.limit = 0 end
    if claim.limit == 0 then return "paused" end -- C1
    if claim.weight > claim.limit then return "unsatisfiable" end -- C2
    if in_grace then return "recovering" end -- C3
    if claim.occupied + claim.weight > claim.limit then return "saturated" end -- C4
end

function permits.was_released(at, holder)
    return call("ZSCORE", at.released, holder)
end

-- Return a token that is larger than every token in the ledgers of these resources. If a ledger was lost, it is larger
-- than earlier tokens as long as the clock does not step back.
function permits.new_token(claims)
    local token = now
    for _, claim in ipairs(claims) do
        token = math.max(token, permits.known(claim.at).token + 1)
    end
    return token
end

-- Return token and beginning as text, made once as `permit.stamp`; most permits begin at the time that is their token.
local function stamp(permit)
    if not permit.stamp then
        local token = string.format("%.0f", permit.token)
        permit.written = token
        permit.stamp = token .. " " .. (permit.since == permit.token and token or string.format("%.0f", permit.since))
    end
    return permit.stamp
end

function permits.write(at, name, weight, permit, ends, restored)
    local by = restored and "r" or permit.by ~= "" and permit.by .. permit.rank or ""
    local record = stamp(permit) .. " " .. weight .. " " .. EPOCH_WRITTEN .. " " .. by
    call("ZADD", at.holders, ends, name)
    if permits.known(at).token > permit.token then
        call("HSET", at.ledger, "of:" .. name, record)
    else
        at.token = permit.token
        call("HSET", at.ledger, "token", permit.written, "of:" .. name, record)
    end
    if weight ~= 1 then
        call("HSET", at.weights, name, weight)
    end
    if permit.by ~= "" then
        call("HSET", at.ledger, string.format("for:%.0f", permit.token), name)
    end
    if restored then
        call("HSET", at.ledger, "restored", EPOCH_WRITTEN)
    end
end
