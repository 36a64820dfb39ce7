-- Keep the index of resources in use, which must be reaped now and then.

-- Mark a resource in use. Its ledger must not have an expiry, or volatile-* eviction could delete it.
local function mark_in_use(at, look)
    call("PERSIST", at.ledger)
    if look then
        call("ZADD", INDEX, "LT", math.min(look, now + LEASE), at.name)
    else
        call("ZADD", INDEX, "NX", LEASE_END, at.name)
    end
end

-- Let an idle resource expire after a while.
local function expire_idle(at)
    call("PEXPIRE", at.ledger, math.ceil(LEASE / 100)) -- ten leases, in ms
    call("ZREM", INDEX, at.name)
end

local function update_index(at, look)
    if call("EXISTS", at.holders, at.tickets) == 0 then
        expire_idle(at)
    else
        mark_in_use(at, look)
    end
end
