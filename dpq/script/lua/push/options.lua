-- options: read the options of tasks that are not plain. They stand in a JSON object, whose names are explained by
-- `Options` in verbs/pushing.py. If a name is left out, its option has the usual value. Times are ms. If a value
-- has another form than Python writes, the push is refused, and the error names the option and its form.
-- The format is JSON, since fakeredis has no cmsgpack. Options have names, since three names are read in 0.33 us, and a
-- list of 14 values in 0.59 us.
-- Needs: notes
-- Gives: read_options(args), for the arguments of push: the options of the tasks that are not plain, by the number of
--        the task; and an error that push is to answer, or nil; and true if a task has a batch, or waits for one or for
--        other tasks. The option `notes` is the text of the record's notes.
local USUAL = { residual = '1', max_attempts = 10, cost = '1', delay = 0, expires_in = 0, group = '', key = '',
  on_duplicate = 'keep', notes = '' }
local LONGEST = { priority = 24, residual = 4, cost = 200, group = 200, key = 200, on_duplicate = 14, cron = 400,
  trace = 55, member = 100, batch = 200, seals = 200, backoff = 207, on_dead = 4 }
local MOST = { after = 16 } -- ids
local FORM = { priority = '^%-?%d[%d.]*e?[+-]?%d*$', residual = '^[02]%d%d%d$', cost = '^%d+,?[%l%d_=,]*$',
  group = '^%C*$', key = '^%C*$', on_duplicate = '^%l', cron = '^%S+ %S+ %S+ %S+ %S+ %S* ?%S+$',
  trace = '^%x%x%-%x+%-%x+%-%x%x$', member = '^[^~%c]%C*$', batch = '^%C+$', seals = '^%C+$',
  backoff = '^%d[%d,]*$', on_dead = '^[br]u' }
local LARGEST = { max_attempts = 1000000, max_lapses = 1000000, delay = 315360000000, expires_in = 315360000000,
  every = 315360000000, first = 99999999999999, visibility = 315360000000, time_limit = 315360000000,
  unique_for = 4000000000000000, debounce_max = 4000000000000000 } -- the last two are for ever
local NO_LIMIT = 1000000000000 -- of attempts

local function rule_of(name)
  local words = { priority = 'a finite number such as 5, -1.5 or 2e+16', residual = '0 or 2, and three digits',
    cost = 'a number of requests, then units: such as 2 or 1,tokens=1800', group = 'a name without control characters',
    key = 'a name without control characters', on_duplicate = 'keep, update, raise_priority, rerun or error',
    member = 'a name without control characters, and without a ~ in front', trace = 'a W3C traceparent',
    backoff = 'up to 16 numbers of ms, such as 1000,5000', batch = 'a name without control characters',
    seals = 'a name without control characters',
    on_dead = 'bury or run',
    cron = 'five or six fields and a zone, such as */5 * * * * UTC' }
  if words[name] then
    return 'must be ' .. words[name] .. ', as text of at most ' .. LONGEST[name] .. ' bytes'
  elseif name == 'after' then
    return 'must be a list of 1 to 16 ids, for a task without a schedule that updates no other'
  elseif LARGEST[name] then
    local least = (name == 'every' or string.find(name, '^max_')) and 1 or 0
    local more = name == 'max_attempts' and string.format(', or %.0f for no limit', NO_LIMIT) or ''
    return string.format('must be a whole number from %d to %.0f', least, LARGEST[name]) .. more
  end
  return 'is not known'
end

local function wrong_after(options)
  local ids = options.after
  local wrong = type(ids) ~= 'table' or #ids < 1 or #ids > MOST.after or options.every or options.cron or options.seals
    or options.on_duplicate == 'update' or options.on_duplicate == 'rerun'
  for _, id in pairs(wrong and {} or ids) do
    wrong = wrong or type(id) ~= 'string' or #id > 200 or not string.find(id, '^%C+$')
  end
  return wrong
end

-- Returns the name of an option that is wrong or missing, or nil.
local function wrong_option(options)
  for name, value in pairs(options) do
    local longest = LONGEST[name]
    if MOST[name] then
      if wrong_after(options) then
        return name
      end
    elseif longest then
      if type(value) ~= 'string' or #value > longest or not string.find(value, FORM[name]) then
        return name
      end
    elseif type(value) ~= 'number' or value < 0 or value % 1 ~= 0
      or value > (LARGEST[name] or -1) and (name ~= 'max_attempts' or value ~= NO_LIMIT) then
      return name
    end
  end
  local size, how = math.abs(tonumber(options.priority or '') or math.huge), options.on_duplicate or 'keep'
  if size == math.huge or size == 0 and string.find(options.priority, 'e') -- no double holds it
    or string.find(options.priority, '^%-?0%d') then
    return 'priority'
  elseif options.on_dead and options.on_dead ~= 'bury' and options.on_dead ~= 'run' then
    return 'on_dead'
  elseif how ~= 'keep' and how ~= 'update' and how ~= 'raise_priority' and how ~= 'rerun' and how ~= 'error' then
    return 'on_duplicate'
  end
  return options.every == 0 and 'every' or options.max_attempts == 0 and 'max_attempts'
    or options.max_lapses == 0 and 'max_lapses' or options.cron and not options.first and 'first'
    or (options.every or options.cron) and (options.batch and 'batch' or options.seals and 'seals') or nil
end

local function read_options(args)
  local options, usual, tied = {}, { __index = USUAL }, false
  for i = 3, #args, 3 do
    if string.byte(args[i]) == 123 then
      local each = cjson.decode(args[i])
      local wrong = wrong_option(each)
      if wrong then
        return nil, redis.error_reply('ERR DPQ: the option ' .. wrong .. ' ' .. rule_of(wrong))
      end
      options[i / 3] = setmetatable(each, usual)
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
  return options, nil, tied
end
