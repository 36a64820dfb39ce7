-- Read and delete what a holder, or a grant, has on one resource; see _permits.lua for the keys.
local holders = {}

-- Return the permit or grant of this name, parsed and with its end, or nil.
function holders.read(at, name)
    local record = call("HGET", at.ledger, "of:" .. name)
    local ends = record and tonumber(call("ZSCORE", at.holders, name))
    if ends then
        local permit = records.parsed(record)
        permit.ends = ends
        return permit
    end
end

-- Delete the grant of this wait.
function holders.take_back(at, nonce)
    records.erase(at, GRANT .. nonce, holders.read(at, GRANT .. nonce))
end

-- Mark the resource in use, or idle if it has no holder and no wait.
function holders.update_index(at, look)
    if call("EXISTS", at.holders, at.tickets) == 0 then
        index.expire_idle(at)
    else
        index.mark_in_use(at, look)
    end
end
