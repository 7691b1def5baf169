-- order: read the order of a task, which begins its member of ready. An order is a residual, then the sequence of the
-- task in 15 digits. If a double holds the priority exactly, the residual is "1". Else it has 4 digits. Behind the
-- order stands the id. docs/storage.md, "Order".
-- Gives: residual_in(order, at), how many digits the residual has. The order begins at `at`, or at 1;
--        sequence_of(member); id_of(member);
--        score_of(task), its score in ready: minus the priority, and what it has gained by aging;
--        split(set, member), which returns id, order and group of a member of a set. The id is empty if the text is no
--        such member.
local function residual_in(order, at)
  return string.byte(order, at or 1) == 49 and 1 or 4
end

local function sequence_of(member)
  local digits = residual_in(member)
  return string.sub(member, digits + 1, digits + 15)
end

local function id_of(member)
  return string.sub(member, residual_in(member) + 16)
end

local function score_of(task)
  local rate, since = string.match(task.aging, '^(.+)@(%d+)$')
  return (rate and rate * (task.enqueued + task.wait - since) / 1000 or 0) - task.priority
end

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
