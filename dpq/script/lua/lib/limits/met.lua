-- met: close a scope after a 429. The first task or permit afterwards is a probe. docs/design.md, "A 429".
-- Needs: now, pace, open_or_close, event, notice
-- Gives: meet(gate, ms, granted, counts, was_probe, status, id), which closes the gate for `ms`; if that is below 0,
--        for -ms, and longer with each probe in a row that is refused. `granted` is when the request was granted, ms;
--        `id` is that of its task, or nil. If the 429 `counts`, it teaches the gate a slack or a rate. A closing by
--        hand without an end stays as it is. The caller must call admit (place) afterwards. It returns the ms;
--        named(status, detail), the detail of an event `rate_limited`, behind the status. A status of nil is a 429.
local MOST_GUESS_MS = 300000

local function named(status, detail)
  return status and status .. ', ' .. detail or detail
end

-- Sets the interval of a window anew. A longer interval also lengthens what the window has saved up. The debt grows by
-- as much, or units that were spent would come back.
local function slow_down(gate, i, rate)
  local window, rule = gate[i], gate.rules[i]
  local before = window.interval
  pace(window, rule, rate, gate.slack)
  window.paid = window.paid + math.max(0, math.ceil((window.interval - before) * (rule.burst - 1) * 4096) / 4096)
end

-- Widens the windows. No more was granted than the limit says, so requests came closer together on their way to the
-- host. The slack begins with a twentieth of the shortest window, 50 ms at most. Then it grows by an eighth, or to
-- twice as much if the next 429 comes within five windows. It is never longer than the window itself, which halves the
-- rate.
local function widen(gate, opens)
  for i, rule in ipairs(gate.rules) do
    if not rule.slack then
      local soon = instant - gate.beside < 5 * rule.per
      local slack = math.max(gate.slack * (soon and 2 or 1.125), math.min(rule.per / 20, 50))
      gate.slack = math.ceil(math.min(slack, rule.per, MOST_SLACK_MS))
      gate.learned, gate.beside = gate.slack, opens
      break
    end
  end
  for i, rule in ipairs(gate.rules) do
    slow_down(gate, i, rule.rate)
  end
end

-- Lowers a learned rate. If a window was clean since the last 429, the limit is about what has gone through in the last
-- window. If this number and the rate are about as high as at the 429 before, the climb gets slower. If the host
-- refuses earlier than before, the rate goes down further. If no window was clean, the rate is halved. Source:
-- docs/storage.md, "Learning".
local function lower(gate, rules)
  local rate, last, clean = gate.rate, gate.learned, gate.beside <= gate.rate and gate.beside or 0
  local before = math.max(0, 1 - (instant - gate.since) / rules[1].per) * clean -- what began in the last clean window
  local through, early = math.max(clean, math.min(rate, gate.used - 1 + before)), rate < last * 0.9375
  if clean > 0 and last > 0 and not early and through <= last * 1.25 then
    gate.climb = math.max(CLIMB / 24, (gate.climb or CLIMB) * 0.75)
  elseif last > 0 then
    gate.climb = nil -- the limit has changed
  end
  if clean > 0 then
    local down = early and 0.8125 or (gate.climb or CLIMB) * 2 > CLIMB and 0.875 or 0.9375
    gate.learned, gate.rate = through, math.max(rules.floor, clean * down)
  else
    gate.learned, gate.rate = last > 0 and last or rate, math.max(rules.floor, rate / 2)
  end
  gate.beside = 0
  slow_down(gate, 1, gate.rate)
end

-- Counts the closings in a row, and returns how long this one is if the host has named no time. The jitter keeps
-- groups apart that were closed together.
local function guess(gate, ms, was_probe)
  gate.row = was_probe and gate.row + 1 or gate.probe ~= '-' and gate.row or 0
  return was_probe and math.min(ms * 2 ^ gate.row, MOST_GUESS_MS) * (1 - now % 128 / 1024) or ms
end

local function meet(gate, ms, granted, counts, was_probe, status, id)
  local guessed = guess(gate, -ms, was_probe)
  ms = ms < 0 and guessed or ms
  local rules, by_hand, before = gate.rules, gate.why == 'h' and gate.opens >= UNTIL_OPENED, gate.rate
  local opens = by_hand and now + ms or math.max(gate.opens, now + ms)
  if instant < gate.since then -- `since` is the end of the closing that has lowered the rate
    gate.since = opens
  elseif rules.ceiling > 0 and gate[1] and counts then
    lower(gate, rules)
    gate.since, gate.used = opens, 0
  elseif rules.ceiling == 0 and counts and not was_probe and granted > gate.beside then
    widen(gate, opens)
  end
  local group, member = string.match(gate.scope, '^([^\t]*)\t?(.*)$')
  if gate.rate ~= before then
    tell('learned', group, member, '', string.format('%.6g, was %.6g', gate.rate, before))
  end
  if not is_repeated('rate_limited', group, member) then
    tell('rate_limited', group, member, id or '', named(status, string.format('closed until %.0f', opens)))
  end
  gate.probe = gate.probe == '-' and 'p' or gate.probe -- a running probe stays the only one
  gate.changed = true
  if by_hand then
    return ms
  end
  gate.opens, gate.why = opens, 'l'
  for i, window in ipairs(rules) do
    gate[i].owed = math.max(gate[i].paid, owed_after(opens, window, gate[i]))
  end
  if gate.scope == '' then
    stirred[''] = true
  else
    redis.call('HSET', conf, 'gated', '1')
    open_or_close((string.match(gate.scope, '^[^\t]*'))) -- for a member of a pool, open or close its group
  end
  return ms
end
