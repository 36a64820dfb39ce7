-- The smallest limit that was declared lately: row A4 of docs/maintain/architecture.md.
--   ledger  hash  limit -> "<the smallest of the newest window> <that of the window before, or empty> <the end of the
--                 newest window>"; a window is one lease long
--                 limit_by and limit_before_by: the processes that declared these two first
--   EPOCH   hash  A18: the same three for all keys of a semaphore, with ":" and its name behind them
local limits = {}

-- The time by which windows end: it stands still while holders are awaited after a silence (A17).
local windows_at = permits_ended_by

-- Return the record of windows, parsed, with the limit in force: the smallest of both windows. Once both are over, the
-- last one stays until another is declared. The limit in force rises when a lower one `lapses`.
local function parsed(record)
    local low, before, ends = record:match("^(%d+) (%d*) (%d+)$")
    local found = {low = tonumber(low), before = tonumber(before), ends = tonumber(ends)}
    local lapses = found.before and found.before < found.low and windows_at < found.ends
    found.limit = lapses and found.before or found.low
    found.lapses = lapses and math.max(found.ends, awaited_until) or nil
    return found
end

-- A18: return a record until both of its windows are over, when the limit in force rises if it was the lower one.
local function lately(found)
    if found and windows_at < found.ends + LEASE then
        found.lapses = found.lapses or math.max(found.ends + LEASE, awaited_until)
        return found
    end
end

-- A18: return what is declared for all keys of the semaphore of this key, or nothing.
local function for_all_keys(name)
    local whole = name:match("^([^/]*)/")
    local record = whole and call("HGET", EPOCH, "limit:" .. whole)
    local found = lately(record and parsed(record))
    if found then
        found.hash, found.suffix = EPOCH, ":" .. whole
    end
    return found
end

-- Read both records into `at`, and return the limit in force.
function limits.read(at, name, record)
    at.own, at.bound = record and parsed(record), for_all_keys(name)
    if at.own then
        at.own.hash, at.own.suffix = at.ledger, ""
    end
    local own = at.own
    if at.bound then -- for all keys it is declared again and again, for this one perhaps never again
        own = lately(own)
    end
    at.said = at.bound and not (own and own.limit <= at.bound.limit) and at.bound or own
    at.declared = at.said and at.said.limit or nil
    at.lapses = at.said and at.said.lapses or nil
    return at.declared
end

-- Return the limit that is in force of all that was declared, and the process that declared it; or nothing.
function limits.declared(at)
    local said = at.said
    local field = said and (said.limit < said.low and "limit_before_by" or "limit_by") .. said.suffix
    local by = said and call("HGET", said.hash, field)
    return said and {said.limit, by or ""} or {}
end

-- Note a declaration in this hash, and return whether that changed anything. Most do not: they come in the present
-- window, which has a limit that is no higher.
local function note(hash, suffix, known, limit, by)
    local ends, before = now - now % LEASE + LEASE, nil
    if known and now < known.ends and known.ends <= ends and known.low <= limit then
        return
    end
    local known_by = call("HMGET", hash, "limit_by" .. suffix, "limit_before_by" .. suffix)
    local before_by = known_by[2]
    -- A17: what was in force when a silence began is of the present window, for no call came since.
    if known and windows_at < now and known.ends <= now and windows_at < known.ends + LEASE then
        known_by[1] = known.limit < known.low and before_by or known_by[1]
        known = {low = known.limit, ends = ends}
    end
    if known and known.ends > ends - 2 * LEASE and known.ends <= now then -- of the window before
        before, before_by = known.low, known_by[1]
    elseif known and known.ends > now then
        -- the present one, also if it seems to end later: the clock stepped back, or the lease became shorter
        by, before = limit < known.low and by or known_by[1], known.before
        limit, ends = math.min(limit, known.low), math.min(ends, known.ends)
    end
    local record = string.format("%d %s %.0f", limit, before or "", ends)
    call("HSET", hash, "limit" .. suffix, record, "limit_by" .. suffix, by or "",
        "limit_before_by" .. suffix, before_by or "")
    return record
end

function limits.declare(at, limit, by)
    local record = note(at.ledger, "", at.own, limit, by)
    if record then
        limits.read(at, at.name, record)
    end
    return record
end

-- A18: note what a worker declares for all keys; return what is in force for all of them, as `declared` does.
function limits.declare_for_all(whole, limit, by)
    local suffix = ":" .. whole
    local record = call("HGET", EPOCH, "limit" .. suffix)
    record = note(EPOCH, suffix, record and parsed(record), limit, by) or record
    local found = parsed(record)
    found.hash, found.suffix = EPOCH, suffix
    return limits.declared({said = found})
end
