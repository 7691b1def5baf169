-- member: split a member of ready or waiting into its parts.
-- Needs: order
-- Gives: split(set, member), which returns id, order and group. The id is empty if the text is no such member.
local function split(set, member)
  local group
  if set == waiting then
    group, member = string.match(member, '^([^\t]*)\t%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x(.*)$')
    member = member or ''
  end
  if set == waiting or set == ready then
    local length = residual_in(member) + 15
    return string.sub(member, length + 1), string.sub(member, 1, length), group
  end
  return member
end
