-- The messages of a task: while one of them runs, the others are refused; once it ran, they are copies.
--   messages  string  {ticket, admitted: the message that was admitted, if any, holder, ran, until}, packed
--   arg 5  how long to keep the record, and after a blank the message, unless it is the task's first: then an existing
--          record belongs to an earlier task, since a sender may reuse a task id
local remembered, message = arg(5):match("^(%d+) ?(.*)$")
local is_first = not arg(5):find(" ")
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
if ticket == "" and said then
    ticket = said.ticket
end

-- carried: the ticket of the call or of the record, or empty  own: the message of the call  is_first: of its task
local messages = {carried = ticket, own = message, is_first = is_first}

function messages.remember(ticket, admitted)
    if messages_key and not of_earlier then
        local task = {ticket = ticket, admitted = admitted, holder = holder, ["until"] = now + remembered}
        call("SET", messages_key, cmsgpack.pack(task), "PX", math.ceil(remembered / 1000))
    end
end

function messages.other_lives()
    return said and said.admitted and call("ZSCORE", resources[1].holders, said.holder)
end

-- A8, A9: return why another message of the task keeps this one from running, or nil. If the other was released without
-- having run, or died, this one may run.
function messages.other()
    if said and said.admitted and said.admitted ~= message then
        return said.ran and "copy" or messages.other_lives() and "running" or nil
    end
end
