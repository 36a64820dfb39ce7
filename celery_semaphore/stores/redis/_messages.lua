-- Which of a task's messages was admitted: its copies must not run, its own redelivery may.
--   messages  string  {ticket, the message that was admitted if any, its holder, until}, packed
--   arg 5  for how long to remember, then, unless its sender published it a moment ago: a blank, the message, a
--          blank, the holder that sent it back. A sender may use a task id again: then what is known is of an
--          earlier task.
local remembered, message, sender = arg(5):match("^(%d+) ?(%S*) ?(.*)$")
local first = not arg(5):find(" ")
local said = messages and not first and call("GET", messages)
said = said and cmsgpack.unpack(said)
if said and said["until"] <= now then
    said = nil
end
local of_earlier = said and said.ticket ~= "" and ticket ~= "" and said.ticket ~= ticket
if said and ticket == "" then
    ticket = said.ticket
end
local carried = ticket

-- Another message was admitted, and ran: it was not the holder that sent this one back.
local function is_copy()
    return said and not of_earlier and said.admitted and said.admitted ~= message and said.holder ~= sender
end

local function remember(ticket, admitted)
    if messages and not of_earlier then
        local task = {ticket = ticket, admitted = admitted, holder = holder, ["until"] = now + remembered}
        call("SET", messages, cmsgpack.pack(task), "PX", math.ceil(remembered / 1000))
    end
end
