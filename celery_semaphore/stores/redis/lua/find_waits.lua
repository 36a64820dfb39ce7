-- Find the waits of a task: their nonces begin with its id and a colon. Other tasks may have ids that begin so, too.
--   arg 1 the id and a colon  2 the last entry of the answer before, or empty  3 how many entries at most
-- Returns {epoch, {an entry of CLAIMS...}}
local start = arg(2) == "" and "[" .. arg(1) or "(" .. arg(2)
return {epoch, call("ZRANGEBYLEX", CLAIMS, start, "(" .. arg(1) .. AFTER_NONCE, "LIMIT", 0, arg(3))}
