-- refunds: compute what a window gives back for a task that has spent less than was reserved, and what it owes for
-- more. The text of this stands behind the `paid` of a window: ":interval:most:over", then one to three pairs
-- ":token:slack". A pair means that the grants before `token` may get back at most `slack` ms. Proof: docs/design.md,
-- "True-up".
-- Needs: now, pace
-- Gives: note_grant(gate, i, token, moment), to be called before window i is charged for a grant; the grant is at
--        `moment`, or now if it is nil;
--        floor_of(gate, i), what the window owes after a 429, whatever was paid;
--        and the functions that give_back needs: read_pairs, pairs_now, add_pair, write_pairs.
local PAIRS, marks = 3, {}

-- The text before the pairs: the interval and the most units of the window.
local function mark_of(interval, most, rule)
  local mark = marks[rule]
  if not mark or mark.interval ~= interval or mark.most ~= most then
    mark = { interval = interval, most = most }
    mark.text = string.format(interval < 0.25 and ':%.20f:%.0f:' or ':%.17g:%.0f:', interval, most)
    marks[rule] = mark
  end
  return mark.text
end

-- Reads the pairs, the oldest first: their slack grows with the token. The table also has the interval and the most
-- units of the last grant, and what is owed beyond the bound. Returns nil if there are no pairs, or if they cannot be
-- read.
local function read_pairs(window, rule)
  local mark, interval, most, over, rest = string.match(window.more or '',
    '^(:(%d[%d.]*):(%d+):)(%d[%d.]*)(.*)$')
  local known = { interval = tonumber(interval or ''), most = tonumber(most or ''), over = tonumber(over or '') }
  if mark == mark_of(window.interval, window.most, rule) then
    known.interval = window.interval -- its text may have fewer digits
  end
  while rest and rest ~= '' do
    local token, slack, more = string.match(rest, '^:(%d+):(%d[%d.]*)(.*)$')
    token, slack = tonumber(token or ''), tonumber(slack or '')
    local last = known[#known]
    if not slack or #known == PAIRS or last and (token <= last.token or slack <= last.slack) then
      return nil
    end
    known[#known + 1], rest = { token = token, slack = slack }, more
  end
  return known.interval and known.over and known[1] and known
end

local function add_pair(known, token, slack)
  local last = known[#known]
  while last and (last.slack >= slack or last.token >= token) do
    slack, token = math.min(slack, last.slack), math.max(token, last.token)
    known[#known], last = nil, known[#known - 1]
  end
  known[#known + 1] = { token = token, slack = slack }
  if #known > PAIRS then -- join the two of the closest slack: later token, smaller slack
    local closest = 1
    for n = 2, PAIRS do
      if known[n + 1].slack - known[n].slack < known[closest + 1].slack - known[closest].slack then
        closest = n
      end
    end
    known[closest + 1].slack = known[closest].slack
    table.remove(known, closest)
  end
end

local function write_pairs(window, known, rule)
  window.more = mark_of(known.interval, known.most, rule) .. string.format('%.17g', known.over)
  for _, pair in ipairs(known) do
    window.more = window.more .. string.format(':%.0f:%.17g', pair.token, pair.slack)
  end
end

-- Computes the pairs for the next grant. Some grants get nothing back: those before there were pairs, and those that
-- were charged at a shorter interval, or with fewer units at most. Without a token this holds for all grants up to
-- now.
local function pairs_now(window, rule, token)
  local known = read_pairs(window, rule)
  if not known or window.interval > known.interval or window.most > known.most then
    token = token or math.max(tonumber(redis.call('HGET', conf, 'token') or '') or 0, math.floor(instant * 1000)) + 1
    known = { over = known and known.over or 0, { token = token, slack = 0 } }
  end
  known.interval, known.most = window.interval, window.most
  return known
end

local function floor_of(gate, i)
  return gate.why == 'l' and owed_after(gate.opens, gate.rules[i], gate[i]) or 0
end

local function note_grant(gate, i, token, moment)
  local window, rule = gate[i], gate.rules[i]
  if window.first then -- grants of one moment count as one: no refund lies before another of them
    return
  end
  local slack = math.max(0, window.paid - math.max(moment or instant, floor_of(gate, i)))
  window.first = token
  if slack == 0 then -- nothing from before this grant can be given back
    window.more = mark_of(window.interval, window.most, rule) .. string.format('0:%d:0', token)
    return
  end
  local known = pairs_now(window, rule, token)
  known.over = 0 -- a debt beyond the bound would have prevented this grant
  add_pair(known, token, slack)
  write_pairs(window, known, rule)
end
