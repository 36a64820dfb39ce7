-- Which resources are in use, and so need a look now and then.

-- In use: no expiry, or volatile-* eviction would take what nobody may lose.
local function mark_in_use(at, look)
    call("PERSIST", at.ledger)
    if look then
        call("ZADD", INDEX, "LT", math.min(look, now + LEASE), at.name)
    else
        call("ZADD", INDEX, "NX", LEASE_END, at.name)
    end
end

-- Idle: gone after a while.
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
