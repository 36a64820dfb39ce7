-- Keep the index of resources in use, which must be reaped now and then.
local index = {}

-- Mark a resource in use. Its ledger must not have an expiry, or volatile-* eviction could delete it.
function index.mark_in_use(at, look)
    call("PERSIST", at.ledger)
    if look then
        call("ZADD", INDEX, "LT", math.min(look, now + LEASE), at.name)
    else
        call("ZADD", INDEX, "NX", LEASE_END, at.name)
    end
end

-- Let an idle resource expire after a while.
function index.expire_idle(at)
    call("PEXPIRE", at.ledger, math.ceil(LEASE / 100)) -- ten leases, in ms
    call("ZREM", INDEX, at.name)
end
