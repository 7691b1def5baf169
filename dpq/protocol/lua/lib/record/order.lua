-- order: the order of a task, with which its member of ready begins: a residual, then its sequence in 15 digits. If the
-- priority is exact as a double, the residual is 1, else 4 digits. Behind the order stands the id. docs/storage.md,
-- "Order".
-- Gives: residual_in(order, at), how many digits the residual has, of an order that begins at `at`, or at 1;
--        sequence_of(member); id_of(member).
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
