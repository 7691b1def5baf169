-- plain_text: write the text of a gate that holds only grants, and the same parts of others (keep).
-- Needs: moving
-- Gives: totals_of(gate), the counts of 429s and of granted units;
--        windows_of(gate), until when each window is paid;
--        slots_of(gate), the slots of moving windows;
--        plain_text(gate), the text of a gate that plain_gate has read.

-- Writes a time as text. A double of that size has at most 12 bits behind the point, and four digits tell these apart.
local function moment_text(ms)
  local part = ms % 1
  if part == 0 then
    return string.format('%d', ms)
  elseif ms < 2 ^ 40 then
    return string.format('%.17g', ms)
  end
  return string.format('%d.%04d', ms - part, part * 10000 + 0.5)
end

local function totals_of(gate)
  local text = string.format('R:%.0f ', gate.met)
  for i, rule in ipairs(gate.rules) do
    text = text .. string.format('G%s:%.0f ', rule.name, gate[i].granted)
  end
  return text
end

local function windows_of(gate)
  local text = ''
  for i, rule in ipairs(gate.rules) do
    text = text .. rule.name .. ':' .. moment_text(gate[i].paid)
      .. (rule.moving and moving_fields(gate[i]) or gate[i].more or '') .. ' '
  end
  return text
end

local function slots_of(gate)
  local text = ''
  for i, rule in ipairs(gate.moves and gate.rules or {}) do
    text = rule.moving and text .. '|' .. gate[i].body or text
  end
  return text
end

local function plain_text(gate)
  return '- ' .. (gate.rules.own and totals_of(gate) or '') .. windows_of(gate) .. slots_of(gate)
end
