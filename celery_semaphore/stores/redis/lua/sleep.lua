-- Put a session to sleep: it is granted nothing until it asks again.
--   arg 1 session
-- Returns {epoch}
even_if_full()
sessions.forget(arg(1)) -- Q6
return {epoch}
