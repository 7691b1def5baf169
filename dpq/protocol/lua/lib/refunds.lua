-- refunds: what of a window is given back when a task has spent less than was reserved for it, and what is owed when
-- it has spent more. That stands behind the `paid` of a window: ":interval:most:over", and one to three pairs
-- ":token:slack": the grants before `token` may get back at most `slack` ms. Proof: docs/design.md, "True-up".
-- Keys: conf
-- Needs: now, gate
-- Gives: refunds(), which makes its functions when it is first called. granted(gate, i, token), before window i is
--        charged for a grant; and what give_back needs: read, now, add, write, floor.
local made

local function refunds()
  if made then
    return made
  end
  local PAIRS = 3

  local function written(interval)
    return string.format(interval < 0.25 and '%.20f' or '%.17g', interval)
  end

  -- The pairs, the oldest first (their slack grows with the token); the interval and the most of the last grant; what
  -- is owed beyond the bound. Nil if there are none, or if they cannot be read.
  local function read_pairs(window)
    local interval, most, over, rest = string.match(window.more or '', '^:(%d[%d.]*):(%d+):(%d[%d.]*)(.*)$')
    local known = { interval = tonumber(interval or ''), most = tonumber(most or ''), over = tonumber(over or '') }
    if interval == written(window.interval) then
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
    if #known > PAIRS then -- the two whose slack is closest become one, of the later token and the smaller slack
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

  local function write_pairs(window, known)
    window.more = string.format(':%s:%.0f:%.17g', written(known.interval), known.most, known.over)
    for _, pair in ipairs(known) do
      window.more = window.more .. string.format(':%.0f:%.17g', pair.token, pair.slack)
    end
  end

  -- The pairs as they are for the next grant. Grants that were charged at a shorter interval, or with less at most, or
  -- before there were pairs, get nothing back. Without a token: all grants so far.
  local function pairs_now(window, token)
    local known = read_pairs(window)
    if not known or window.interval > known.interval or window.most > known.most then
      token = token or math.max(tonumber(redis.call('HGET', conf, 'token') or '') or 0, math.floor(instant * 1000)) + 1
      known = { over = known and known.over or 0, { token = token, slack = 0 } }
    end
    known.interval, known.most = window.interval, window.most
    return known
  end

  local function floor_of(gate, i) -- what the window owes after a 429, whatever was paid
    return gate.why == 'l' and owed_after(gate.opens, gate.rules[i], gate[i]) or 0
  end

  local function granted(gate, i, token)
    if gate[i].first then -- grants of one moment are as one: what they give back never lies before another's
      return
    end
    local known = pairs_now(gate[i], token)
    gate[i].first = token
    known.over = 0 -- else it had not been granted
    add_pair(known, token, math.max(0, gate[i].paid - math.max(instant, floor_of(gate, i))))
    write_pairs(gate[i], known)
  end

  made = { granted = granted, read = read_pairs, now = pairs_now, add = add_pair, write = write_pairs,
    floor = floor_of }
  return made
end
