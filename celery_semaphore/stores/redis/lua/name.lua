-- E6: put the waits that a session holds back into line, unless another message of them was refused since: rows N1 to
-- N4 of docs/maintain/architecture.md. The next reaper hands on.
--   arg 1 session, then for each wait: ticket, kind, how long its place is kept in transit, claims as the caller wrote
--       them, number of resources, and for each: which of the declared ones, limit, weight
-- Returns {epoch, a text with one "w" (waits) or "e" (elsewhere) for each wait}
local session, word = arg(1), given + 2
local standing = {}

local function read_wait()
    local ticket, count = ARGV[word], tonumber(ARGV[word + 4])
    local info = {kind = ARGV[word + 1], keeps = tonumber(ARGV[word + 2]), claims = ARGV[word + 3], due = now,
        session = session, names = {}, weights = {}, limits = {}}
    local ats = {}
    for n = 1, count do
        local at = resources[tonumber(ARGV[word + 2 + 3 * n])]
        ats[n], info.names[n] = at, at.name
        info.limits[at.name], info.weights[at.name] = tonumber(ARGV[word + 3 + 3 * n]), tonumber(ARGV[word + 4 + 3 * n])
    end
    word = word + 5 + 3 * count
    return ticket, info, ats
end

local function name(ticket, info, ats)
    local nonce = records.nonce_of(ticket)
    for n = #ats, 1, -1 do
        local at = ats[n]
        local known, stands = waits.info(at, nonce)
        if known and known.session ~= session then -- N4
            return "e"
        elseif known and call("ZSCORE", at.transit, stands) then -- N2
            known.due = sessions.is_awake(session) and known.due or now
            line.enqueue(at, stands, known)
            index.mark_in_use(at, now)
        end
        if known then -- N3
            return "w"
        end
    end
    local overdue = {}
    for _, at in ipairs(ats) do
        local granted_until = tonumber(call("ZSCORE", at.holders, GRANT .. nonce) or 0)
        if granted_until > now or granted_until > 0 and in_grace then -- N4: its message was sent
            return "e"
        elseif granted_until > 0 then
            table.insert(overdue, at)
        end
    end
    for _, at in ipairs(overdue) do
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
