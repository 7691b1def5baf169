-- options: read the options of tasks that are not plain. They stand in a JSON object, whose names are explained by
-- `Options` in operations/pushing.py. If a name is left out, its option has the usual value. Times are ms.
-- The format is JSON, since fakeredis has no cmsgpack. Options have names, since three names are read in 0.33 us, and a
-- list of 14 values in 0.59 us.
-- Needs: marks
-- Gives: read_options(args), for the arguments of push: the options of the tasks that are not plain, by the number of
--        the task; and an error that push is to answer, or nil. The option `notes` is the text of the record's notes.
local USUAL = { residual = '1', max_attempts = 10, cost = '1', delay = 0, expires_in = 0, group = '', key = '',
  on_duplicate = 'keep', notes = '' }
local LONGEST = { priority = 24, residual = 4, cost = 200, group = 200, key = 200, on_duplicate = 14, cron = 400,
  trace = 55, member = 100 }
local LARGEST = { max_attempts = 1000000, delay = 315360000000, expires_in = 315360000000, every = 315360000000,
  first = 99999999999999, visibility = 315360000000, time_limit = 315360000000 }

local function wrong_option(name, value)
  local longest, largest = LONGEST[name], LARGEST[name]
  if longest then
    return type(value) ~= 'string' and 'is no text' or #value > longest and 'is too long'
      or string.find(value, '%c') and 'has control characters'
  end
  return not largest and 'is not known'
    or (type(value) ~= 'number' or value < 0 or value > largest or value % 1 ~= 0) and 'is out of its bounds'
end

local function read_options(args)
  local options, usual = {}, { __index = USUAL }
  for i = 3, #args, 3 do
    if string.byte(args[i]) == 123 then
      local each = cjson.decode(args[i])
      for name, value in pairs(each) do
        local wrong = wrong_option(name, value)
        if wrong then
          return nil, redis.error_reply('ERR DPQ: the ' .. name .. ' ' .. wrong)
        end
      end
      if not string.find(each.priority or '', '^%-?%d[%d.e+-]*$') then
        return nil, redis.error_reply('ERR DPQ: the priority is no number')
      end
      options[i / 3] = setmetatable(each, usual)
      if each.visibility or each.time_limit or each.trace then
        each.notes = OPTIONS .. (each.visibility or 0) .. ' ' .. (each.time_limit or 0)
          .. (each.trace and ' ' .. each.trace or '')
      end
      if each.member then
        each.notes = each.notes .. PIN .. each.member
      end
    end
  end
  return options
end
