-- E6: put the waits that a session owns back into line, unless another message of them was refused since: rows N1 to
-- N4 of docs/maintain/architecture.md. The next reaper hands on.
--   arg 1 session, then for each wait: ticket, kind, how long its place is kept in transit, claims as the caller wrote
--       them, number of resources, and for each: which of the declared ones, limit, weight
-- Returns {epoch, a text with one "w" (waits) or "e" (elsewhere) for each wait}
local session, word = arg(1), given + 2
local standing = {}

local function read_wait()
    local ticket, count = ARGV[word], tonumber(ARGV[word + 4])
    local info = {kind = ARGV[word + 1], keeps = tonumber(ARGV[word + 2]), claims = ARGV[word + 3], due = now,
        session = session, epoch = epoch, names = {}, weights = {}, limits = {}}
    local ats = {}
    for n = 1, count do
        local at = resources[tonumber(ARGV[word + 2 + 3 * n])]
        ats[n], info.names[n] = at, at.name
        info.limits[at.name], info.weights[at.name] = tonumber(ARGV[word + 3 + 3 * n]), tonumber(ARGV[word + 4 + 3 * n])
    end
    word = word + 5 + 3 * count
    return ticket, info, ats
end

local function granted_until(at, nonce)
    return tonumber(call("ZSCORE", at.holders, GRANT .. nonce) or 0)
end

-- Return whether a wait stands in line and was named in this epoch, or has a grant that lasts.
local function may_stay(at, ticket, nonce, info)
    local ends = granted_until(at, nonce)
    if ends > 0 then
        return ends > now
    end
    return info.epoch == epoch and not call("ZSCORE", at.transit, ticket)
end

-- Return where the wait stands; or nil for an unknown one, and for one that was sent with a grant that is over.
local function standing_at(at, nonce)
    local known, stands = waits.info(at, nonce)
    if not known or waits.was_sent(at, nonce, known) and is_over(granted_until(at, nonce), true) then
        return nil
    elseif known.session ~= session then -- N4
        return "e"
    elseif not may_stay(at, stands, nonce, known) then -- N2
        holders.take_back(at, nonce) -- as E7, which ends those of the other claims
        known.epoch = epoch
        line.return_held(at, stands, known)
    end
    return "w" -- N3
end

local function name(ticket, info, ats)
    local nonce = records.nonce_of(ticket)
    if waits.other_claims(nonce, info) then -- N4, A19
        return "e"
    end
    for _, at in ipairs(ats) do
        local found = standing_at(at, nonce)
        if found then
            return found
        end
    end
    for _, at in ipairs(ats) do
        waits.dequeue(at, nonce)
        holders.take_back(at, nonce) -- its end would put this wait in transit (E7)
    end
    line.enqueue(ats[1], ticket, info) -- N1
    index.mark_in_use(ats[1], now)
    return "w"
end

while word <= #ARGV do
    table.insert(standing, name(read_wait()))
end
return {epoch, table.concat(standing)}
