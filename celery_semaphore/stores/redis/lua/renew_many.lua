-- Extend the leases of many permits in the common case: each claim still has the record that this epoch wrote. All
-- other permits need renew.lua.
--   keys   after the common ones, of each claim of each permit: holders, ledger
--   arg 1  number of permits, then of each: holder, number of claims, and of each claim the record up to its epoch
-- Returns {epoch, one "1" for each permit that was extended, one "0" for each other}
local written_now = EPOCH_WRITTEN .. " "
local usual = call("EXISTS", INDEX) == 1 -- renew.lua restores a lost index
local extended, key, word = {}, COMMON, given + 2

local function is_there(holder, claims)
    for n = 1, claims do
        local holders, ledger = KEYS[key + 2 * n - 1], KEYS[key + 2 * n]
        if call("HGET", ledger, "of:" .. holder) ~= ARGV[word + 1 + n] .. written_now
            or tonumber(call("ZSCORE", holders, holder) or 0) <= now
        then
            return false
        end
    end
    return true
end

even_if_full()
for permit = 1, tonumber(arg(1)) do
    local holder, claims = ARGV[word], tonumber(ARGV[word + 1])
    local there = usual and is_there(holder, claims)
    for n = 1, there and claims or 0 do
        call("ZADD", KEYS[key + 2 * n - 1], "XX", LEASE_END, holder)
    end
    extended[permit] = there and "1" or "0"
    key, word = key + 2 * claims, word + 2 + claims
end
return {epoch, table.concat(extended)}
