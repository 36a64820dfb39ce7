-- Return where a wait stands, of which this call declares all resources: W1 to W5 of docs/maintain/architecture.md.
--   arg 1 its nonce
-- Returns {epoch, state, which of the resources, ticket, kind, weight, waits before it, due, session, reachable,
--          limit or "", end of the grant or ""}; or {epoch} if there is no such wait any more
local nonce = arg(1)

-- Return the state of a wait, and when its grant ends; or nil.
local function state_of(at, ticket, info)
    local granted_until = tonumber(call("ZSCORE", at.holders, GRANT .. nonce) or nil)
    local has_message = call("HEXISTS", at.payloads, nonce) == 1
    if granted_until and not is_over(granted_until, true) then
        return "granted", granted_until -- W1
    elseif granted_until and has_message then
        return "in line" -- W3
    elseif waits.was_sent(at, nonce, info) then
        return nil -- W5
    elseif call("ZSCORE", at.aside, ticket) then
        return "set aside" -- W3
    elseif call("ZSCORE", at.line, ticket) then
        return "in line" -- W3
    end
    return has_message and "ended" or "in transit" -- W4, W2
end

for n, at in ipairs(resources) do
    local info, ticket = waits.info(at, nonce)
    local state, granted_until
    if info then
        state, granted_until = state_of(at, ticket, info)
    end
    if state then
        local is_here = info.session or call("HEXISTS", at.payloads, nonce) == 1
        local reachable = state ~= "in transit" and is_here and sessions.reach(info)
        return {epoch, state, n, ticket, info.kind, info.weights[at.name], line.position(at, ticket), info.due,
            info.session or "", reachable and 1 or 0, permits.limit_behind(at, nil) or "", granted_until or ""}
    end
end
return {epoch}
