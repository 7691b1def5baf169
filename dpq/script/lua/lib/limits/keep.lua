-- keep: store the gates that have changed, and the leases that were charged. A gate that holds only grants is stored in
-- a short form. An empty gate is not stored. Layout: docs/storage.md, "Gates".
-- Needs: now, rules, meters, booked, plain_text, hash_table, callers
-- Gives: keep(), to be called after the last change of a gate;
--        call_callers(), which calls the callers of all gates that the script has read.
local REPEATED_MS = 120000 -- how long a call for a reset, or for a 429 of a permit, may be sent again

-- Writes the part before the windows.
local function head_of_text(gate)
  local text = '- '
  if gate.opens > 0 or gate.probe ~= '-' or gate.rules.ceiling > 0 or gate.rest and gate.rate > 0 then
    text = string.format('%.17g %s %s %.17g %.17g %.17g ', gate.opens, gate.why, gate.probe, gate.rate, gate.since,
      gate.used)
  end
  if gate.learned + gate.beside > 0 and gate.rules[1] then
    text = text .. string.format('0:%.17g:%.17g', gate.learned, gate.beside)
      .. (gate.climb and string.format(':%.17g ', gate.climb) or ' ')
  end
  if gate.rules.own and (gate.rules[1] or gate.met > 0) then
    text = text .. totals_of(gate)
  end
  local booked = not gate.rest and gate.booked -- `rest` has the bookings already
  if booked and (math.max(booked[1], booked[2], booked[3], booked[5]) > instant or forget_ended(gate)) then
    text = text .. string.format('B:%.17g:%.17g:%.17g:%.17g:%.17g ', unpack(booked))
  end
  if gate.taught + REPEATED_MS > instant and gate.rules[1] then
    text = text .. string.format('P:%.17g ', gate.taught)
  end
  if (tonumber(string.match(gate.reset, ':(%d+)$') or 0) or 0) + REPEATED_MS > instant then
    text = text .. 'Z:' .. gate.reset .. ' '
  end
  if gate.row > 0 and gate.probe ~= '-' then
    text = text .. string.format('N:%d ', gate.row)
  end
  if gate.last > 0 then
    text = text .. string.format('L:%.17g ', gate.last)
  end
  if gate.turn > 0 then
    text = text .. string.format('T:%.6f ', gate.turn)
  end
  return (gate.rules[1] or gate.rules.every) and text .. gate.spent or text
end

-- Writes the text, which is "- " if the gate holds nothing.
local function text_of(gate)
  if gate.plain then
    return plain_text(gate)
  end
  local text = head_of_text(gate) .. windows_of(gate) .. (gate.meters and meters_text(gate) or '')
  return text .. slots_of(gate) .. (gate.rest or '') -- what belongs to rules that are lost or unreadable now
end

local function keep()
  local fields, n = {}, 0
  if seen.leased[1] then
    redis.call('ZADD', tracked, unpack(seen.leased))
    seen.leased = {}
  end
  for scope, gate in pairs(seen.gates) do
    if gate.changed then
      local text = text_of(gate)
      gate.changed = false
      if text == '- ' then
        redis.call('HDEL', scope == '' and conf or gates, scope == '' and 'queue_gate' or scope)
      elseif scope == '' then
        redis.call('HSET', conf, 'queue_gate', text)
      else
        fields[n + 1], fields[n + 2], n = scope, text, n + 2
      end
    end
  end
  if n > 0 then
    redis.call('HSET', gates, unpack(fields))
    as_table(gates, n >= 16 or now % 64 == 0)
  end
end

local function call_callers()
  local awaited = {}
  for _, gate in pairs(seen.gates) do
    awaited[#awaited + 1] = not gate.plain and is_awaited(gate) and gate or nil
  end
  for _, gate in ipairs(awaited) do
    call_line(gate)
    if gate.scope == '' then
      redis.call('ZADD', tracked, '0', '\t') -- the script that ends a lease looks at the line
    end
  end
end
