-- held: find the lease of a permit. The name of the lease in `tracked` holds its end, so each extension changes the
-- name. A caller whose answer was lost knows an old name.
-- Gives: held_now(scopes, held), for the scopes of the permit. It returns the name that the lease has now; or `held` if
--        the lease has ended.
local function held_now(scopes, held)
  local member = held
  for _, scope in ipairs(scopes) do
    if not redis.call('ZSCORE', tracked, scope .. '\t' .. member) then
      local from, to = '[' .. scope .. '\t~', '(' .. scope .. '\t\127'
      local others = redis.call('ZRANGEBYLEX', tracked, from, to, 'LIMIT', '0', '1000')
      for _, other in ipairs(others) do
        if string.sub(other, #scope + 17) == string.sub(held, 16) then
          member = string.sub(other, #scope + 2)
        end
      end
    end
  end
  return member
end
