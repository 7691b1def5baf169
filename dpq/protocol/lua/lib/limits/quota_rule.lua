-- quota_rule: read the rule of a quota. The bounds are those of `Quota`. Layout: docs/storage.md, "Quotas".
-- Gives: quota_of(part), the rule for a part of a limit's rules, or nil if the part is no quota.
local function quota_of(part)
  local letter, unit, most, changes, rest = string.match(part,
    '^([HDWM])([a-z0-9_]*) ([1-9]%d*) [^ ]+ (%d+:%-?%d+[%d:,-]*)(.*)$')
  local amount, spread = tonumber(most or ''), string.sub(rest or '', 1, 2) == ' ~'
  local kept = string.sub(rest or '', spread and 3 or 1)
  local reserve, rank = string.match(kept or '', '^ ([1-9]%d*) (%-?%d[%d.e+-]*)$')
  reserve, rank = tonumber(reserve or 0), tonumber(rank or 0)
  if amount and amount <= 1000000000000 and (kept == '' or reserve > 0) and reserve < amount and rank
    and math.abs(rank) <= 2 ^ 63 then
    return { letter = letter, unit = unit, name = letter .. unit, amount = amount, changes = changes,
      spread = spread, reserve = reserve, rank = rank }
  end
end
