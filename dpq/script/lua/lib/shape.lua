-- shape: find what the texts of dead letters have in common, to count similar ones together; and filter tasks.
-- Needs: now, record, layout
-- Gives: shape(text), the first 200 bytes of the text, with "#" for each number but the first status code, 4xx or 5xx,
--        and for a task that it names (followers);
--        said(raw), the reason of a record's death, its last error, and what stands behind that error;
--        filtered(want), a function of the id and the record of a task that returns true if the task passes. `want` has
--        the arguments of search by their names; age is ms, or nil.
local shapes = {}
local function shape(text)
  local known = shapes[text]
  if not known then
    local status
    known = string.gsub(string.gsub(text, '^task %S+, which', 'task #, which'), '%d+', function(number)
      status = status or string.match(number, '^[45]%d%d$')
      return number == status and number or '#'
    end)
    known = string.sub(known, 1, 200)
    shapes[text] = known
  end
  return known
end

local function said(raw)
  local why, met, rest = string.match(raw, '^[^\t\n]*\t[^\t\n]*\t[^\t\n]*\t([^\t\n]*)\t([^\t\n\23-\31]*)([^\n]*)')
  return why or '', met or '', rest or ''
end

local function filtered(want)
  local group, text, reason, fault = want.group, want.text, want.reason, want.fault
  local by_end, recurs = reason ~= '' or fault ~= '-' or want.recurs == '1', want.recurs == '1'
  local reads = want.least or want.highest or want.prefix ~= '' or want.age

  local function holds(id, raw)
    local names, named = string.find(raw, '\t', 1, true) or 1, #text > 7 and string.sub(id, 1, #text) == text
    if want.blind == '1' then
      return named or string.find(string.match(raw, '^[^\n]*'), text, names, true)
    end
    if named or string.find(raw, text, names, true) then
      return true
    end
    local apart = not string.find(raw, '\n', 1, true) and redis.call('HGET', payload, id)
    return apart and string.find(apart, text, 1, true)
  end

  return function(id, raw)
    if group ~= '' and string.match(raw, GROUP) ~= group or text ~= '' and not holds(id, raw) then
      return false
    end
    if by_end then
      local why, met, rest = said(raw)
      if reason ~= '' and shape(why) ~= reason or fault ~= '-' and shape(met) ~= fault
        or recurs and not string.find(rest, '\t', 1, true) then
        return false
      end
    end
    local task = reads and read(raw)
    if not reads or not task then
      return not reads
    end
    local priority = string.find(task.priority, '^%-?0%d') and -task.priority or tonumber(task.priority) -- as in rank
    local since = want.age and (redis.call('ZSCORE', dead, id) or task.enqueued)
    return not (want.least and priority < want.least) and not (want.highest and priority > want.highest)
      and string.sub(task.key, 1, #want.prefix) == want.prefix
      and not (want.age and now - since < want.age)
  end
end
