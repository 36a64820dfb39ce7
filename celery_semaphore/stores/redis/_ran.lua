-- Remember that the task of this holder ran: its other messages are copies from now on.
local function has_run(holder, message, remember)
    if not message then
        return
    end
    local messages = KEYS[11 * #resources + 5]
    local task = call("GET", messages)
    task = task and cmsgpack.unpack(task)
    if task and task.holder == holder and task.admitted == message then
        task.ran, task["until"] = true, now + remember
        call("SET", messages, cmsgpack.pack(task), "PX", math.ceil(remember / 1000))
    end
end
