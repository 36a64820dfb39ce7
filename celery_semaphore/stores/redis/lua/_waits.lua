-- Read, move and end waits; see _line.lua for the keys.
local waits = {TAKE_UP = tonumber(ARGV[2])}

-- Return the ticket of a wait with its present rank, or nil.
function waits.ticket_of(at, nonce)
    local record = call("HGET", at.tickets, nonce)
    return record and record:sub(1, RANK) .. "." .. nonce
end

-- Return the record of a wait, and its ticket; or nil.
function waits.info(at, nonce)
    local record = call("HGET", at.tickets, nonce)
    if record then
        return cmsgpack.unpack(record:sub(RANK + 1)), record:sub(1, RANK) .. "." .. nonce
    end
end

-- Read the record of a wait, into `info` and `stands` of its resource. Return the ticket of the wait with its present
-- rank, for an operator may have promoted it; or nil.
function waits.known_ticket(nonce)
    local known
    for _, at in ipairs(resources) do
        if not at.no_waiters then
            at.info, at.stands = waits.info(at, nonce)
        end
        known = known or at.stands
    end
    return known
end

-- Return the resources and weights of a wait as one text, the same in whatever order its caller names them.
local function text_of(info)
    local claimed = {}
    for n, name in ipairs(info.names) do
        claimed[n] = string.format("%s*%.0f", name, info.weights[name])
    end
    table.sort(claimed)
    return table.concat(claimed, "+")
end

-- Return the entry of a wait in CLAIMS, or nil: one at most begins with the nonce and the byte that follows it.
local function entry_of(nonce)
    local start = nonce .. AFTER_NONCE
    return call("ZRANGEBYLEX", CLAIMS, "[" .. start, "(" .. start .. AFTER_NONCE)[1]
end

-- Keep the claims of a wait, as its caller wrote them; they replace those of an earlier record.
function waits.keep_claims(nonce, info)
    local before, entry = entry_of(nonce), nonce .. AFTER_NONCE .. text_of(info) .. " " .. info.claims
    if before ~= entry then
        call("ZADD", CLAIMS, 0, entry)
        if before then
            call("ZREM", CLAIMS, before)
        end
    end
end

local function forget_claims(nonce)
    local entry = entry_of(nonce)
    if entry then
        call("ZREM", CLAIMS, entry)
    end
end

-- A19: return the claims of the wait, as its caller wrote them, if they are others than these; else nil.
function waits.other_claims(nonce, info)
    local known, claims = (entry_of(nonce) or ""):sub(#nonce + 2):match("^(%S+) (.*)$")
    return known and known ~= text_of(info) and claims or nil
end

-- Return whether the message of this wait was sent, with a grant that no call has ended.
function waits.was_sent(at, nonce, info)
    return not info.session and call("HEXISTS", at.payloads, nonce) == 0 and call("ZSCORE", at.holders, GRANT .. nonce)
end

-- Delete the name of a parked message, unless another wait has it by now: a sender may reuse a task id.
function waits.forget_name(at, name, nonce)
    if name and call("HGET", NAMES, name) == at.name .. "\n" .. nonce then
        call("HDEL", NAMES, name)
    end
end

-- Take a wait out of its line; its record stays.
function waits.step_out(at, ticket)
    for _, key in ipairs(ticket and {at.transit, at.line, at.aside} or {}) do
        call("ZREM", key, ticket)
    end
end

-- E5, E7: put a wait in transit, where it keeps its place for a while and blocks no other.
function waits.send_off(at, ticket, info)
    local nonce = ticket:sub(RANK + 2)
    info.due = now
    waits.step_out(at, ticket)
    call("ZADD", at.transit, 0, ticket)
    call("ZADD", at.due, now + math.max(LEASE, info.keeps), nonce)
    call("HSET", at.tickets, nonce, ticket:sub(1, RANK) .. cmsgpack.pack(info))
end

local function delete_message(at, nonce, info)
    if call("HDEL", at.payloads, nonce) == 1 then
        call("ZREM", at.outbox, nonce)
        waits.forget_name(at, info.name, nonce)
    end
end

-- Delete a wait, with its message and its grant in the session's list.
function waits.dequeue(at, nonce)
    local info, ticket = waits.info(at, nonce)
    waits.step_out(at, ticket)
    call("ZREM", at.due, nonce)
    delete_message(at, nonce, info)
    if info and info.session then
        sessions.tell(info.session, at, nonce)
    end
    if call("HDEL", at.tickets, nonce) == 1 then
        forget_claims(nonce)
    end
end

-- Delete the message of a granted wait; its record stays for as long as its grant.
function waits.send(at, nonce)
    local info, ticket = waits.info(at, nonce)
    if info then
        delete_message(at, nonce, info)
        call("ZREM", at.due, nonce)
        info.name, info.ends = "", nil
        call("HSET", at.tickets, nonce, ticket:sub(1, RANK) .. cmsgpack.pack(info))
    end
end

-- Return whether this wait is in line or set aside.
function waits.is_in_line(at, nonce)
    local ticket = waits.ticket_of(at, nonce)
    return ticket and (call("ZSCORE", at.line, ticket) or call("ZSCORE", at.aside, ticket))
end

-- E10, E12: end the wait of a parked message: it must be sent without a permit, again until the broker has it.
function waits.end_parked(at, nonce)
    local granted_until = call("ZSCORE", at.holders, GRANT .. nonce)
    if granted_until then -- the message is on its way; if the grant ends unused, the wait ends with it
        call("ZADD", at.due, granted_until, nonce)
        return
    end
    local info, ticket = waits.info(at, nonce)
    waits.step_out(at, ticket)
    call("ZADD", at.outbox, 0, nonce)
    waits.forget_name(at, info.name, nonce)
    index.mark_in_use(at, now)
    call("ZADD", at.due, now + waits.TAKE_UP, nonce)
end
