-- Admit the holder on all declared resources, or refuse and remember its place.
--   arg 1 holder  2 kind of waiting; empty for none  3 ticket from an earlier refusal, or empty  4 priority
--       5 shortest, 6 longest delay  7 jitter  8 timeout of the whole wait, or empty  9 claims, as the caller
--       wrote them, then limit and weight of each resource
-- Returns {epoch, "permit", token, since, ends}, or
--   {epoch, reason, n of the resource, limit, occupied, ticket, position, retry after, waited}
local permit, complete = held(claims, holder)
if complete then
    return {epoch, "permit", permit.token, permit.since, permit.ends}
end
for n, claim in ipairs(claims) do
    if permit then -- a part of it is gone from the store, so nobody counts on it any more
        erase(claim.at, holder)
        bury(claim.at, holder)
    end
    if buried(claim.at, holder) then
        refusal(claim, ticket)
        return refuse(n, "released")
    end
end

local grant, whole_grant
if not new then
    grant, whole_grant = held(claims, ticket)
end
if whole_grant then
    return admit(ticket, {token = grant.token, since = grant.since, by = ""})
end
for n, claim in ipairs(claims) do
    if grant then -- made for other claims than these: its task has changed since
        erase(claim.at, ticket)
    end
end
for n, claim in ipairs(claims) do
    local reason = refusal(claim, ticket)
    if reason then
        return refuse(n, reason)
    end
end
return admit(nil, {token = new_token(claims), since = now, by = ""})
