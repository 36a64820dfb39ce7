-- Return the messages of one resource that must be sent, each to one caller only. A message that is not sent is
-- returned again later.
--   arg 1 how many at most  2 the caller's broker, or nothing: it takes those of any
-- Returns {epoch, {ticket, token or 0, until it must be sent, claims, payload}...}
local at, left, broker, grants, kept = resources[1], tonumber(arg(1)), arg(2), {}, 0
local OTHERS = 300 -- that one call passes over in a row: other calls wait for it

-- K4: return whether only a caller with another broker can send it.
local function is_others(info)
    return broker and info and info.broker and info.broker ~= broker
end

local function take(nonce, token, info, ticket)
    call("ZREM", at.outbox, nonce)
    local grant, payload = holders.read(at, GRANT .. nonce), call("HGET", at.payloads, nonce)
    local ended = token == 0 and not waits.is_in_line(at, nonce)
    if payload and (ended or grant and grant.token == token) then
        local ends = grant and grant.ends or tonumber(call("ZSCORE", at.due, nonce))
        table.insert(grants, {ticket, grant and grant.token or 0, ends, info.claims, payload})
    end
end

-- Take from this position on, until `left` are taken, or `OTHERS` were passed over.
local function take_from(first)
    kept = first
    while left > 0 and kept < first + OTHERS do
        local outgoing = call("ZRANGE", at.outbox, kept, kept + math.min(left, OTHERS) - 1, "WITHSCORES")
        for n = 1, #outgoing, 2 do
            local info, ticket = waits.info(at, outgoing[n])
            if is_others(info) then
                kept = kept + 1
            else
                take(outgoing[n], tonumber(outgoing[n + 1]), info, ticket)
                left = left - 1
            end
        end
        if #outgoing == 0 then
            return
        end
    end
end

take_from(0)
local many = call("ZCARD", at.outbox)
if left > 0 and many > OTHERS then -- left by a broker without workers: those that have ended come first
    take_from(many - OTHERS) -- the newest grants
    take_from(math.floor(now % many)) -- some of those that have ended, others each time
end
return {epoch, grants}
