-- options: read the options of tasks that are not plain. They stand in a JSON object, whose names are explained by
-- `Options` in verbs/pushing.py. If a name is left out, its option has the usual value. Times are ms.
-- The format is JSON, since fakeredis has no cmsgpack. Options have names, since three names are read in 0.33 us, and a
-- list of 14 values in 0.59 us.
-- Needs: notes
-- Gives: read_options(args), for the arguments of push: the options of the tasks that are not plain, by the number of
--        the task; and true if a task has a batch, or waits for one or for other tasks. The option `notes` is the text
--        of the record's notes.
local USUAL = { residual = '1', max_attempts = 10, cost = '1', delay = 0, expires_in = 0, group = '', key = '',
  on_duplicate = 'keep', notes = '' }

local function read_options(args)
  local options, usual, tied = {}, { __index = USUAL }, false
  for i = 3, #args, 3 do
    if string.byte(args[i]) == 123 then
      local each = setmetatable(cjson.decode(args[i]), usual)
      options[i / 3] = each
      if each.visibility or each.time_limit or each.trace or each.backoff then
        each.notes = OPTIONS .. (each.visibility or 0) .. ' ' .. (each.time_limit or 0)
          .. (each.trace and ' ' .. each.trace or '') .. (each.backoff and ' +' .. each.backoff or '')
      end
      if each.member then
        each.notes = each.notes .. PIN .. each.member
      end
      if each.batch or each.seals then
        each.notes = each.notes .. BATCH .. (each.batch or '\1' .. each.seals)
      end
      each.notes = each.notes .. (each.unique_for and string.format('%s%.0f', UNIQUE, each.unique_for) or '')
      tied = tied or each.batch or each.seals or each.after
      if each.max_lapses then
        each.notes = each.notes .. string.format('%s%d 0', LAPSES, each.max_lapses)
      end
    end
  end
  return options, tied
end
