-- Grant free permits to the first wait in line: H1 to H12 of docs/maintain/architecture.md. All claims of the head
-- are tried at one instant. If another claim refuses it, it moves to that resource's line. If it finds no room here,
-- it blocks the line, or heavy waits would starve; only a wait heavier than the limit is stepped over. If the line is
-- empty, a free permit goes to the next acquire.
local hand_on = {}
local MOST = 100 -- tries in one call; the caller calls again for the rest
local tries, undeclared, again = 0, {}, false
local granted = {} -- the nonces of waits that a session must take up
local by_name = {}
for _, at in ipairs(resources) do
    by_name[at.name] = at
end

-- Return the claims of a wait that this call declared, the one on `home` first; and whether some are missing.
local function claims_of(info, home)
    local claims = {}
    for _, name in ipairs(info.names) do
        local claim = {at = by_name[name], weight = info.weights[name], limit = info.limits[name]}
        if claim.at then
            table.insert(claims, name == home.name and 1 or #claims + 1, claim)
        end
    end
    return claims, #claims < #info.names
end

local GRANT_END = now + GRANT_S * 1000000 -- of a grant that a session must ask for

-- H9, E4: grant all claims of a wait.
local function grant(ticket, info, claims, home)
    local nonce, rank = records.nonce_of(ticket), ticket:sub(1, RANK)
    local permit = {token = permits.new_token(claims), since = now, by = "g", rank = rank}
    kept_room.finish(resources, nonce)
    local parked = call("HEXISTS", home.payloads, nonce) == 1
    local ends = parked and now + waits.TAKE_UP or GRANT_END
    for n, claim in ipairs(claims) do
        if n > 1 and holders.read(claim.at, GRANT .. nonce) then
            holders.take_back(claim.at, nonce) -- one that is over, and that no call has ended
        end
        permits.write(claim.at, GRANT .. nonce, claim.weight, permit, ends)
        index.mark_in_use(claim.at, ends)
    end
    call("ZREM", home.line, ticket)
    if parked then
        call("ZADD", home.outbox, permit.token, nonce)
        index.mark_in_use(home, now)
    elseif info.session then -- without both, the server has evicted its message
        sessions.tell(info.session, home, nonce, ends)
        table.insert(granted, nonce)
    end
end

local function mean_of(at)
    return tonumber(permits.known(at).mean or nil)
end

-- Return for how long the other claim is to keep its room until the turn at the one that refuses, or nothing. Where no
-- permit was released yet, the mean of the other resource counts.
local function time_to_keep(refusing, other, head)
    local limit = permits.limit_of(other.at, other.limit) or 0
    local there = mean_of(refusing.at) or mean_of(other.at) or 1000000
    local here = mean_of(other.at) or mean_of(refusing.at) or 1000000
    if refusing.weight * there * limit > 2 * other.weight * here * refusing.limit then
        return nil -- permits come more slowly there
    end
    local turn = (line.ahead(refusing.at, head) + refusing.weight) * there / refusing.limit
    return turn <= 2 * here and KEPT_ROOM + 2 * math.floor(turn) or nil
end

-- H12: keep the room of the other claims that would admit the wait, where permits do not come much sooner than its
-- turn. Where it kept room before, and keeps none now, the next call hands that on.
local function keep_room(claims, refusing, reason, head)
    local before, keeps = kept_room.finish(resources, records.nonce_of(head)), {}
    for _, claim in ipairs(reason == "saturated" and claims or {}) do
        local lasts = claim ~= refusing and time_to_keep(refusing, claim, head)
        if lasts and not line.refusal(claim, head) then
            keeps[claim.at] = kept_room.keep(claim.at, head, claim.weight, math.min(now + lasts, furthest()))
        end
    end
    for _, at in ipairs(before) do
        again = again or not keeps[at]
    end
end

-- H8: move a wait to the line of another resource.
local function move(home, other, head, info)
    local nonce, payload = records.nonce_of(head), call("HGET", home.payloads, records.nonce_of(head))
    waits.dequeue(home, nonce)
    line.enqueue(other, head, info, payload)
    index.mark_in_use(other, kept_room.comes_at(other)) -- O3
end

-- Try the head of the line; return whether to go on.
local function try(home)
    local head, more = line.first(home, "+", permits.limit_of(home))
    again = again or more
    if not head or more then -- H3
        return false
    end
    local info = waits.info(home, records.nonce_of(head))
    local claims, short = claims_of(info, home)
    if line.refusal(claims[1], head) or not sessions.has_room(info.session) then -- H6, H11
        return false
    elseif short then -- H7: the head blocks the line until a call has all its claims
        undeclared = info.names
        return false
    end
    local refusing, reason = line.refusing(claims, 2, head)
    if not refusing then
        grant(head, info, claims, home)
    else
        move(home, claims[refusing].at, head, info)
        keep_room(claims, claims[refusing], reason, head)
    end
    return true
end

local function pass_on(home)
    if home.no_waiters or in_grace then -- H1
        return
    elseif permits.limit_of(home) == 0 then -- H1
        local _, _, more = line.first_reachable(home, "+")
        again = again or more or false
        index.mark_in_use(home, permits.rises_at(home)) -- O3
        return
    end
    while try(home) do
        tries = tries + 1
        if tries >= MOST then -- H10
            again = true
            return
        end
    end
end

function hand_on.answer()
    for _, at in ipairs(resources) do
        pass_on(at)
    end
    -- The caller may die before it calls again: then the next reaper continues.
    local look = (again or #undeclared > 0) and now or in_grace and grace_until or nil
    local outgoing = {}
    for _, at in ipairs(resources) do
        holders.update_index(at, look)
        if call("EXISTS", at.outbox) == 1 then
            table.insert(outgoing, at.name)
        end
    end
    return {epoch, again and 1 or 0, undeclared, outgoing, granted}
end
