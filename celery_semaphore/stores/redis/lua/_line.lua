-- The line of one resource. The key of a wait is its nonce, see _records.lua. Its rank is "<255 - priority>.<place>".
-- Rank and nonce make its ticket, a text that sorts by priority, then by place. So a wait keeps its place even if it
-- leaves the store and comes back. If the store knows the wait, its rank in the store counts.
--   transit   zset  ticket in transit -> 0
--   line      zset  ticket in line: its message is in the store, or it was reachable when last checked -> 0
--   aside     zset  ticket set aside: heavier than the limit in force, else as in `line` -> 0
--   outbox    zset  nonce of a wait with a message to send -> token of its grant, or 0: the wait has ended
--   due       zset  nonce -> when the wait is deleted or, if it has a message, ends
--   tickets   hash  nonce -> rank, followed by the packed record of the wait
--   payloads  hash  nonce -> its message, until it is sent
local line = {}
local MOST = 100 -- waits that one call steps over, for each reason: other calls wait for it

function line.place_of(ticket)
    return tonumber(ticket:sub(5, RANK))
end

-- Put a wait into the line. It replaces an earlier record, which may have another rank, or another message's name.
function line.enqueue(at, ticket, info, payload)
    local nonce = records.nonce_of(ticket)
    local before, stood = waits.info(at, nonce)
    at.no_waiters = false
    -- First: a server without free memory refuses this.
    call("HSET", at.tickets, nonce, ticket:sub(1, RANK) .. cmsgpack.pack(info))
    waits.keep_claims(nonce, info)
    if before then
        waits.step_out(at, stood)
        waits.forget_name(at, before.name, nonce)
    end
    local held = info.session and sessions.reach(info)
    call("ZADD", (payload or held) and at.line or at.transit, 0, ticket)
    local forgotten = not payload and not held and info.due + math.max(LEASE, info.keeps or 0)
    call("ZADD", at.due, forgotten or info.ends or "+inf", nonce)
    if payload then
        call("HSET", at.payloads, nonce, payload)
        if info.ends then
            index.mark_in_use(at, info.ends)
        end
        if info.name ~= "" then
            call("HSET", NAMES, info.name, at.name .. "\n" .. nonce)
        end
    end
end

-- Put a held wait into its line again, tell its session, and reap the resource: the next one may get the permit.
function line.return_held(at, ticket, info)
    sessions.tell(info.session, at, records.nonce_of(ticket))
    info.due = sessions.reach(info) and info.due or now
    line.enqueue(at, ticket, info)
    index.mark_in_use(at, now)
end

-- A11: put a wait whose grant was taken back into its line, and reap the resource: the next one may get the permit.
function line.put_back(at, nonce)
    local info, ticket = waits.info(at, nonce)
    if info and info.session then
        return line.return_held(at, ticket, info)
    elseif info and call("HEXISTS", at.payloads, nonce) == 1 then
        call("ZADD", at.line, 0, ticket)
    elseif info then -- its message was sent
        waits.dequeue(at, nonce)
    end
    index.mark_in_use(at, now)
end

-- Return how many waits in line stand before this one.
function line.ahead(at, ticket)
    return call("ZLEXCOUNT", at.line, "-", "(" .. ticket)
end

function line.position(at, ticket)
    local before = "(" .. ticket
    local elsewhere = call("ZLEXCOUNT", at.transit, "-", before) + call("ZLEXCOUNT", at.aside, "-", before)
    return elsewhere + line.ahead(at, ticket)
end

-- Return where the line begins: this call has passed over all before that (H11).
local function after(at)
    return at.passed and "(" .. at.passed or "-"
end

-- H5: put waits that are not reachable at the head of the line in transit. Return the first other wait, or that there
-- are more to step over.
function line.first_reachable(at, up_to)
    for _ = 1, MOST do
        local ticket = call("ZRANGEBYLEX", at.line, after(at), up_to, "LIMIT", 0, 1)[1]
        local info = ticket and waits.info(at, records.nonce_of(ticket))
        if not info or sessions.reach(info) then
            return ticket, info
        end
        waits.send_off(at, ticket, info)
    end
    index.mark_in_use(at, now) -- the next reaper continues
    return nil, nil, true
end

local function set_aside(at, ticket, most)
    call("ZREM", at.line, ticket)
    call("ZADD", at.aside, 0, ticket)
    if at.too_heavy_above ~= most then
        at.too_heavy_above = most
        call("HSET", at.ledger, "too_heavy_above", most)
    end
end

-- H11: pass over the waits of sessions without room at the head of the line; return whether there are any. They are
-- read together, for each release does this while a session that owns many has no room.
local function passes_over(at, up_to)
    local left = MOST - (at.passed_over or 0)
    local tickets = left > 0 and call("ZRANGEBYLEX", at.line, after(at), up_to, "LIMIT", 0, left) or {}
    local nonces = {}
    for n, ticket in ipairs(tickets) do
        nonces[n] = records.nonce_of(ticket)
    end
    if #nonces == 0 then
        return false
    end
    index.mark_in_use(at, now) -- the session may have room soon
    local found = call("HMGET", at.tickets, unpack(nonces))
    for n, record in ipairs(found) do
        local session = cmsgpack.unpack(record:sub(RANK + 1)).session
        if sessions.has_room(session) then
            return n > 1
        end
        at.passed, at.passed_over = tickets[n], (at.passed_over or 0) + 1
    end
    return true
end

-- Return the first wait in line, up to `up_to`, that is reachable, fits the limit in force, and has a session with room
-- (H11). Heavier waits are set aside until the limit is raised (H2), or every call would have to step over them (H4).
-- If one call cannot step over all of them, return `up_to` and that there are more.
function line.first(at, up_to, limit)
    local too_heavy_above = tonumber(permits.known(at).too_heavy_above)
    if too_heavy_above and not (limit and limit <= too_heavy_above) then
        call("ZUNIONSTORE", at.line, 2, at.line, at.aside)
        call("DEL", at.aside)
        call("HDEL", at.ledger, "too_heavy_above")
        at.too_heavy_above = nil
    end
    for _ = 1, MOST do
        local ticket, info, more = line.first_reachable(at, up_to)
        if more then
            return up_to, true
        end
        local most = limit or info and info.limits[at.name] or 0
        if not ticket then
            return nil
        elseif info.weights[at.name] > most then
            set_aside(at, ticket, most)
        elseif sessions.has_room(info.session) or not passes_over(at, up_to) then
            return ticket
        end
    end
    index.mark_in_use(at, now) -- the next reaper continues
    return up_to, true
end

-- Return the reason why this claim refuses, the first of C1 to C5, or nil. A wait in transit blocks no other.
function line.refusal(claim, ticket)
    local why = permits.no_room(claim)
    if not why and claim.occupied + kept_room.before(claim.at, ticket) + claim.weight > claim.limit then
        return "saturated" -- C4
    elseif why or claim.at.no_waiters then
        return why
    end
    if line.first(claim.at, "(" .. ticket, claim.limit) then return "saturated" end -- C5
end

-- Return the mean of a resource where none is known: the longest one that is known of the claims of a wait.
local function usual_mean(claims)
    local longest
    for _, claim in ipairs(claims) do
        local mean = tonumber(permits.known(claim.at).mean or nil)
        longest = mean and math.max(longest or mean, mean) or longest
    end
    return longest or 1000000
end

-- Return the number of the claim that refuses, from the given one on, and its reason; or nil. It is the first or, where
-- that is saturated, the slowest of those that are (A13): permits for its weight come most slowly. In another line the
-- wait would only be moved there when its turn comes.
function line.refusing(claims, from, ticket)
    local found, longest
    for n = from, #claims do
        local claim, reason = claims[n], line.refusal(claims[n], ticket)
        if reason == "saturated" then
            local comes_in = claim.weight * (permits.known(claim.at).mean or usual_mean(claims)) / claim.limit
            if not found or comes_in > longest then
                found, longest = n, comes_in
            end
        elseif reason and not found then
            return n, reason
        end
    end
    return found, found and "saturated"
end
