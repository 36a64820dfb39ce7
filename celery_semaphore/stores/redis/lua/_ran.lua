-- R5: note that the task of a released message ran; it and all others of the task are copies from now on.
--   arg 1 holder  2 the message, if its task ran  3 how long to keep the record
--       4 not empty for the task's first message, which has a record only if it was delivered again while it ran
--   the last key is the record of the task's messages, if a message is given
local ran = {is_first = arg(2) and arg(4) ~= ""}

function ran.note()
    local messages_key = KEYS[COMMON + 11 * #resources + 1]
    local task = call("GET", messages_key)
    task = task and cmsgpack.unpack(task)
    if task and task.holder == arg(1) and task.admitted == arg(2) then
        even_if_full()
        task.ran, task["until"] = true, now + arg(3)
        call("SET", messages_key, cmsgpack.pack(task), "PX", math.ceil(arg(3) / 1000))
    end
end

if arg(2) and not ran.is_first then
    ran.note()
end
