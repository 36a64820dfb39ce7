-- Know which sessions are awake, and tell them of their grants.
local sessions = {}

function sessions.is_awake(session)
    local asked = tonumber(call("ZSCORE", SESSIONS, session) or 0)
    return asked > now - LEASE
end

-- Return whether a wait has no session, so that its message is here, or its session is awake and said in this epoch
-- that it holds the wait. One of an earlier epoch may have ended in the moments that the store lost; then no session
-- would take its grant up.
function sessions.reach(info)
    return not info.session or info.epoch == epoch and sessions.is_awake(info.session)
end

-- Return the key of a grant in its session's list. A ticket may stand in two lines, and be granted at each. A nonce may
-- have a line feed, the name of a resource has none.
function sessions.key_of(at, nonce)
    return at.name .. "\n" .. nonce
end

function sessions.nonce_in(key)
    return key:sub(key:find("\n", 1, true) + 1)
end

-- Set or delete (`ends` is nil) a grant in the session's list; each change also deletes overdue ones.
function sessions.tell(session, at, nonce, ends)
    local known, key = call("HGET", GRANTS, session), sessions.key_of(at, nonce)
    local grants = {[key] = ends}
    for other, until_when in pairs(known and cmsgpack.unpack(known) or {}) do
        if other ~= key and until_when > now then
            grants[other] = until_when
        end
    end
    if next(grants) then
        call("HSET", GRANTS, session, cmsgpack.pack(grants))
    elseif known then
        call("HDEL", GRANTS, session)
    end
end
