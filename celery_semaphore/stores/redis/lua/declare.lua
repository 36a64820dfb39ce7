-- Note a limit that a worker declares: A4, and A18 for all keys of a semaphore, whose name ends with "//".
--   arg 1 limit  2 its process
-- Returns {epoch, {limit, its process} of what is in force, or {} where an operator's limit is}
local at, whole = resources[1], resources[1].name:match("^(.*)//$")
even_if_full()
if whole then
    local said = limits.declare_for_all(whole, tonumber(arg(1)), arg(2))
    return {epoch, permits.by_operator({name = whole}) and {} or said}
end
local in_use = call("ZSCORE", INDEX, at.name)
permits.declare(permits.known(at), tonumber(arg(1)), arg(2))
if not in_use then -- no wait is there; ten leases after the last declaration the record may go
    index.expire_idle(at)
elseif at.raised then -- there may be room for waits in line
    index.mark_in_use(at, now)
end
return {epoch, permits.by_operator(at) and {} or limits.declared(at)}
