-- Stands before a script in tests: no command may name a key that the script was not given.
local redis = (function()
    local server, given = redis, {}
    for _, key in ipairs(KEYS) do
        given[key] = true
    end
    assert(#KEYS > 0, "a script without keys")
    local function checked(how)
        return function(command, ...)
            if command ~= "TIME" and command ~= "PUBLISH" then -- they name none
                for _, key in ipairs(server.call("COMMAND", "GETKEYS", command, ...)) do
                    assert(given[key], command .. " touches " .. key .. ", which the script was not given")
                end
            end
            return how(command, ...)
        end
    end
    return {call = checked(server.call), pcall = checked(server.pcall)}
end)()
