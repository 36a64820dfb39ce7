-- The resources that need a look, at most so many.
--   arg 1 how many
-- Returns {epoch, names}
return {epoch, call("ZRANGEBYSCORE", INDEX, "-inf", now, "LIMIT", 0, tonumber(arg(1)))}
