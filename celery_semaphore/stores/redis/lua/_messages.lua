-- The messages of a task: while one of them runs, all are refused; once it ran, they are copies.
--   messages  string  {ticket, admitted: the message that was admitted, if any, holder, ran, until}, packed
--   ledger    hash    "again:" and a holder -> 1 if its message was delivered again while it ran; see also _permits.lua
--   arg 5  how long to keep the record, and after a blank the message, unless it is the task's first: then an existing
--          record belongs to an earlier task, since a sender may reuse a task id
--   the last arg, after those of the resources: the id of the task, if the broker delivered this message before
local remembered, message = arg(5):match("^(%d+) ?(.*)$")
local is_first = not arg(5):find(" ")
local task_id = arg(7 + 2 * #resources)
local said = messages_key and not is_first and call("GET", messages_key)
said = said and cmsgpack.unpack(said)
if said and said["until"] <= now then
    said = nil
end
local of_earlier = said and said.ticket ~= "" and ticket ~= ""
    and records.nonce_of(said.ticket) ~= records.nonce_of(ticket)
if of_earlier then
    said = nil
end
-- A header has the ticket also when its wait is over.
local brings_later_wait = said and said.ticket ~= "" and ticket ~= ""
    and line.place_of(ticket) > line.place_of(said.ticket)
-- A15: the wait that began later counts, for a message keeps the header of one that has ended.
if said and said.ticket ~= "" and (ticket == "" or line.place_of(ticket) < line.place_of(said.ticket)) then
    ticket = said.ticket
end

-- carried: the ticket of the call or of the record, or empty  own: the message of the call  is_first: of its task
local messages = {carried = ticket, own = message, is_first = is_first}

local function write(task)
    if messages_key and not of_earlier then
        task["until"] = now + remembered
        call("SET", messages_key, cmsgpack.pack(task), "PX", math.ceil(remembered / 1000))
    end
end

function messages.remember(ticket, admitted)
    write({ticket = ticket, admitted = admitted, holder = holder})
end

-- Return when the lease of the run of the admitted message ends, or nil if it runs no more.
function messages.runs_until()
    return said and said.admitted and tonumber(call("ZSCORE", resources[1].holders, said.holder) or nil)
end

-- The first message of a task leaves no record. If it is delivered again while it runs, look for its holder.
local function find_run()
    local start, found = task_id .. ":", nil
    for _, name in ipairs(call("ZRANGE", resources[1].holders, 0, -1)) do
        local is_its = name:sub(1, #start) == start and not name:find(":", #start + 1, true)
        if is_its and not (found and found < name) then
            found = name
        end
    end
    return found and {ticket = messages.carried, admitted = message, holder = found}
end

-- Return whether the broker delivered the message that was admitted once more.
local looked = false
local function is_again()
    if task_id and not said and not of_earlier and not looked then
        said, looked = find_run(), true
    end
    return task_id and said and said.admitted == message
end

-- A8, A9: return why the run of this message, or of another one of its task, keeps this one from running, or nil. If
-- that run was released without having ended, or died, this one may run.
function messages.run()
    local again = is_again()
    if said and said.admitted and (again or said.admitted ~= message) then
        return said.ran and "copy" or messages.runs_until() and "running" or nil
    end
end

-- A15: return whether a message was admitted and its run died, so that the wait of all messages is over: for the
-- admitted one, delivered again, and for any other that brings no ticket of a later wait.
function messages.begins_anew()
    local again = is_again()
    if not (said and said.admitted) or messages.run() then
        return false
    end
    return again or not brings_later_wait and said.admitted ~= message
end

-- A9: note the run of this very message, so that the release of its permit tells that it ended (R5).
function messages.note_run()
    if is_again() then
        write(said)
        call("HSET", resources[1].ledger, "again:" .. said.holder, 1)
    end
end
