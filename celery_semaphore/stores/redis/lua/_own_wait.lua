-- The wait of this acquire: refuse it, and put it into line, or forget it; the arguments are in acquire.lua.
--   arg 3 kind (empty: it does not wait), priority, shortest and longest delay, jitter, the timeout of the whole wait
--         (empty: none), how long its place is kept in transit, and its session (empty: none), with blanks between them
local kind, priority, shortest, longest, jitter, timeout, keeps, session =
    arg(3):match("^(%a*) (%S+) (%S+) (%S+) (%S+) (%S*) (%S+) (.*)$")
priority, shortest, longest = tonumber(priority), tonumber(shortest), tonumber(longest)
timeout = tonumber(timeout)
local asked = {claims = arg(4), names = {}, weights = {}, limits = {}}
local refused_by -- the first claim that declares 0: a callable says that the task must not run now (C1)
for n, claim in ipairs(claims) do
    local name = claim.at.name
    asked.names[n], asked.weights[name], asked.limits[name] = name, claim.weight, claim.own
    refused_by = refused_by or claim.own == 0 and n or nil
end

-- The wait of the given ticket, or one that this holder began in a call that lost its answer.
local own_wait = {nonce = records.nonce_of(ticket) or holder, kind = kind, asked = asked, refused_by = refused_by}

function own_wait.new_ticket()
    local urgency = math.max(0, math.min(255, priority))
    return string.format("%03d.%016.0f.", 255 - urgency, now) .. own_wait.nonce
end

-- Delete the wait; return the message that it had parked, and its record.
function own_wait.forget()
    local payload, info
    for _, at in ipairs(resources) do
        if at.info then
            payload, info = call("HGET", at.payloads, own_wait.nonce), at.info
            -- For a wait that has ended: when its message is offered again.
            local ends = call("ZSCORE", at.due, own_wait.nonce)
            info.ends = ends ~= "inf" and tonumber(ends) or nil
            waits.dequeue(at, own_wait.nonce)
        end
    end
    return payload, info
end

function own_wait.left()
    return timeout and timeout - math.max(0, now - line.place_of(ticket)) or math.huge
end

-- Return the delay after which a permit can be expected here: by the position in line and the mean time of permits.
local function delay(claim, reason, turn)
    local seconds = jitter * (turn + 1) / claim.limit * (claim.at.mean or 1000000)
    if reason == "running" then -- that run may end, or die
        seconds = math.min(math.floor(LEASE / 3), messages.runs_until() - now)
    elseif claim.limit == 0 or reason == "unsatisfiable" then
        seconds = LEASE
    end
    seconds = math.max(shortest, math.min(longest, seconds))
    if reason == "recovering" then
        seconds = math.max(seconds, grace_until - now)
    end
    return math.floor(reason == "running" and seconds or math.min(seconds, own_wait.left())) -- a run does not wait
end

function own_wait.end_kept_room() -- A20
    for _, at in ipairs(kept_room.finish(resources, own_wait.nonce)) do
        index.mark_in_use(at, now)
    end
end

-- A13, and the answer of every other refusal.
function own_wait.refuse(n, reason)
    local claim, waited = claims[n], math.max(0, now - line.place_of(ticket))
    local turn, kept = line.position(claim.at, ticket), (kept_room.before(claim.at, ticket))
    local retry = delay(claim, reason, turn)
    if kind == "" or reason == "released" or reason == "copy" or reason == "running" then
        ticket = "" -- also of A9: the wait ended when that message was admitted
    elseif own_wait.left() <= 0 then
        own_wait.forget()
        ticket, reason, retry = "", "timed_out", 0
    else
        local payload, before = own_wait.forget() -- from the line of the claim that refused before
        asked.kind, asked.due, asked.keeps = kind, now + retry, tonumber(keeps)
        if kind == "block" and session ~= "" then -- the same process asks for the grants of this session
            call("ZADD", SESSIONS, now, session)
        end
        if refused_by then -- E17
            payload = nil
        elseif kind == "park" and payload then
            asked.name, asked.ends = before.name, before.ends
            asked.broker = before.broker
        elseif session ~= "" then -- E1, E2
            asked.session, asked.epoch = session, epoch
        end
        line.enqueue(claim.at, ticket, asked, kind == "park" and payload)
    end
    if kind ~= "block" or reason ~= "saturated" then -- else it only asks again
        own_wait.end_kept_room()
    end
    -- The message goes back. An earlier message that was admitted did not end the task: this one would not exist.
    if reason ~= "running" and (ticket ~= "" or reason == "recovering") and not messages.runs_until() then
        messages.remember(ticket ~= "" and ticket or messages.carried)
    end
    -- When the grace ends, the limit in force rises, or kept room ends, a reaper must look: perhaps nothing is released
    -- here.
    for _, at in ipairs(resources) do
        holders.update_index(at, in_grace and grace_until or kept_room.comes_at(at))
    end
    local by = reason == "unsatisfiable" and not permits.by_operator(claim.at) and limits.declared(claim.at)[2]
    return {epoch, reason, n, claim.limit, claim.occupied, ticket, turn, retry, waited, by or "", kept}
end
