-- Know which sessions are awake, and tell them of their grants.
local sessions = {}

function sessions.is_awake(session)
    local asked = tonumber(call("ZSCORE", SESSIONS, session) or 0)
    return asked > now - LEASE
end

-- Return whether a wait has no session, so that its message is here, or its session is awake and said in this epoch
-- that it owns the wait. One of an earlier epoch may have ended in the moments that the store lost; then no session
-- would take its grant up.
function sessions.reach(info)
    return not info.session or info.epoch == epoch and sessions.is_awake(info.session)
end

-- Forget a session that sleeps: it is granted nothing until it asks again.
function sessions.forget(session)
    call("ZREM", SESSIONS, session)
    call("HDEL", ROOMS, session)
end

-- Return the range of the session's entries among the grants: from its name with a line feed to its name with the next
-- byte.
local function range_of(session)
    return "[" .. session .. "\n", "(" .. session .. "\011"
end

local has_room = {} -- by session, until a grant changes it: a line has many waits of few sessions

-- Return whether the session can use another grant (H11). A wait without a session has its message here.
function sessions.has_room(session)
    if session and has_room[session] == nil then
        local room = tonumber(call("HGET", ROOMS, session))
        has_room[session] = not room or call("ZLEXCOUNT", GRANTS, range_of(session)) < room
    end
    return not session or has_room[session]
end

-- Return the entry of a grant. A nonce may have a line feed, the names of a session and of a resource have none.
local function entry(session, at, nonce)
    return session .. "\n" .. at.name .. "\n" .. nonce
end

-- Set or delete (`ends` is nil) a grant of the session. The grants of all sessions are in one sorted set, since a
-- script declares its keys before it learns to which sessions it grants. Those of one session stand together in it, so
-- that neither a grant nor a question costs more the more others there are.
function sessions.tell(session, at, nonce, ends)
    local one = entry(session, at, nonce)
    has_room[session] = nil
    if ends then
        call("ZADD", GRANTS, 0, one)
        call("ZADD", ENDS, ends, one)
    else
        call("ZREM", GRANTS, one)
        call("ZREM", ENDS, one)
    end
end

-- Tell the session that its grant ends later, if it knows it: it does at the resource with the record of the wait.
function sessions.prolong(session, at, nonce, ends)
    call("ZADD", ENDS, "XX", ends, entry(session, at, nonce))
end

-- Return the nonces of the session's waits that have a grant, and a table with them as keys. Few grants of all are
-- overdue: to read those costs less than to look at the end of each.
function sessions.granted_to(session)
    local over, nonces, known = {}, {}, {}
    for _, one in ipairs(call("ZRANGEBYSCORE", ENDS, "-inf", now)) do
        over[one] = true
    end
    for _, one in ipairs(call("ZRANGEBYLEX", GRANTS, range_of(session))) do
        local nonce = one:sub(one:find("\n", #session + 2, true) + 1)
        if not over[one] then
            known[nonce] = true
            table.insert(nonces, nonce)
        end
    end
    return nonces, known
end

-- Delete entries of grants that are over. Each grant that ends deletes its own; but the keys of a resource may be lost,
-- or evicted, and then no call ends it.
function sessions.tidy()
    for _, one in ipairs(call("ZRANGEBYSCORE", ENDS, "-inf", now, "LIMIT", 0, AT_ONCE)) do
        call("ZREM", GRANTS, one)
        call("ZREM", ENDS, one)
    end
end
