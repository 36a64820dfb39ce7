-- The smallest limit that was declared lately: row A4 of docs/maintain/architecture.md.
--   ledger  hash  limit -> "<the smallest of the newest window> <that of the window before, or empty> <the end of the
--                 newest window>"; a window is one lease long
--                 limit_by and limit_before_by: the processes that declared these two first
local limits = {}

-- Read the record into `at`, and return the limit in force: the smallest of both windows. Once both are over, the last
-- one stays until another is declared. The limit in force rises when a lower one `lapses`.
function limits.read(at, record)
    local low, before, ends = record:match("^(%d+) (%d*) (%d+)$")
    at.low, at.before, at.window_ends = tonumber(low), tonumber(before), tonumber(ends)
    local lapses = at.before and at.before < at.low and now < at.window_ends
    at.declared, at.lapses = lapses and at.before or at.low, lapses and at.window_ends or nil
    return at.declared
end

-- Return the limit that is in force of all that was declared, and the process that declared it; or nothing.
function limits.declared(at)
    local by = at.declared and call("HGET", at.ledger, at.lapses and "limit_before_by" or "limit_by")
    return at.declared and {at.declared, by or ""} or {}
end

-- Note a declaration, and return whether that changed anything. Most do not: they come in the present window, which has
-- a limit that is no higher.
function limits.declare(at, limit, by)
    local ends, known, before = now - now % LEASE + LEASE, at.window_ends, at.before
    if known and now < known and known <= ends and at.low <= limit then
        return false
    end
    local known_by = call("HMGET", at.ledger, "limit_by", "limit_before_by")
    local before_by = known_by[2]
    if not known or known <= ends - 2 * LEASE then
        before = nil
    elseif known <= now then -- of the window before
        before, before_by = at.low, known_by[1]
    else -- the present one, also if it seems to end later: the clock stepped back, or the lease became shorter
        by = limit < at.low and by or known_by[1]
        limit, ends = math.min(limit, at.low), math.min(ends, known)
    end
    local record = string.format("%d %s %.0f", limit, before or "", ends)
    call("HSET", at.ledger, "limit", record, "limit_by", by or "", "limit_before_by", before_by or "")
    limits.read(at, record)
    return true
end
