-- The room that waits keep at one resource while another of their claims is saturated: H12 of
-- docs/maintain/architecture.md.
--   ledger  hash  kept -> the packed list of these rooms; without one there is no such field. Each has the nonce, the
--                 rank and the weight of its wait, and the time when it ends
local kept_room = {}

-- Return the rooms whose time lasts; one that ends later than any can is over, too: the server's clock stepped back.
local function lasting(at)
    if not at.rooms then
        at.rooms = {}
        for _, room in ipairs(permits.known(at).kept and cmsgpack.unpack(at.kept) or {}) do
            if now < room.ends and room.ends <= furthest() then
                table.insert(at.rooms, room)
            else
                at.has_ended_rooms = true
            end
        end
    end
    return at.rooms
end

local function write(at, rooms)
    at.rooms, at.has_ended_rooms = rooms, false
    call("HDEL", at.ledger, "kept") -- first: a server without free memory refuses the next line else
    if #rooms > 0 then
        call("HSET", at.ledger, "kept", cmsgpack.pack(rooms))
    end
end

-- Delete the rooms whose time is over, so that calls take the short way again.
function kept_room.end_overdue(at)
    local rooms = lasting(at)
    if at.has_ended_rooms then
        write(at, rooms)
    end
end

-- Return the weight of the room that other waits keep, which stand before this one (C4), and how many these are.
function kept_room.before(at, ticket)
    local sum, count = 0, 0
    local rank, nonce = ticket:sub(1, RANK), records.nonce_of(ticket)
    for _, room in ipairs(lasting(at)) do
        if room.nonce ~= nonce and (room.rank < rank or room.rank == rank and room.nonce < nonce) then
            sum, count = sum + room.weight, count + 1
        end
    end
    return sum, count
end

function kept_room.weight(at)
    local sum = 0
    for _, room in ipairs(lasting(at)) do
        sum = sum + room.weight
    end
    return sum
end

-- Return when there may be room without a release, or nothing: the limit rises, or the time of kept room is over.
function kept_room.comes_at(at)
    local first = permits.rises_at(at)
    for _, room in ipairs(lasting(at)) do
        first = math.min(first or room.ends, room.ends)
    end
    return first
end

-- Keep room for this wait, unless too many before it do so here: each call goes through all of them.
function kept_room.keep(at, ticket, weight, ends)
    local rooms, _, before = lasting(at), kept_room.before(at, ticket)
    if before >= KEPT_ROOMS then
        return false
    end
    table.insert(rooms, {nonce = records.nonce_of(ticket), rank = ticket:sub(1, RANK), weight = weight, ends = ends})
    write(at, rooms)
    index.mark_in_use(at, ends)
    return true
end

-- End what this wait keeps at these resources; return those where it kept room.
function kept_room.finish(resources, nonce)
    local found = {}
    for _, at in ipairs(resources) do
        local others = {}
        for _, room in ipairs(lasting(at)) do
            if room.nonce ~= nonce then table.insert(others, room) end
        end
        if #others < #lasting(at) then
            write(at, others)
            table.insert(found, at)
        end
    end
    return found
end
