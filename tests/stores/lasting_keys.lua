-- Stands before a script in tests: no key expires by the server's clock, where a test has a clock of its own.
local redis = (function()
    local server = redis
    return {pcall = server.pcall, call = function(command, ...)
        local words = {...}
        if command == "PEXPIRE" then
            words[2] = words[2] * 100000
        elseif command == "SET" and words[3] == "PX" then
            words[4] = words[4] * 100000
        end
        return server.call(command, unpack(words))
    end}
end)()
