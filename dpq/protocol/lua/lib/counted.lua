-- counted: which entry of tracked counts a lease for the concurrency of its group, or of the member that it runs as.
-- Needs: gate, notes
-- Gives: counted_as(id, task), the entry or nil; apart_from_pool(id, task), the one that it had as a member.
local function apart_from_pool(id, task)
  local member = live_note(task, '\28')
  return member and task.group .. '\t' .. member .. '\t' .. id
end

local function counted_as(id, task)
  local rules = task.group ~= '' and gate_of(task.group).rules
  if rules and rules.members then
    local each = rules.each[live_note(task, '\28') or '']
    return each and each.concurrency > 0 and apart_from_pool(id, task) or nil
  end
  return rules and rules.concurrency > 0 and task.group .. '\t' .. id or nil
end
