-- closing: write the first part of a gate's text, which gate_text reads. It says until when the scope is closed and
-- why, its probe, and its learned rate. Layout: docs/storage.md, "Gates".
-- Gives: closing(opens, why, probe, rate, since, used), the text. The last three are 0 if they are left out.
local function closing(opens, why, probe, rate, since, used)
  return string.format('%.17g %s %s %.17g %.17g %.17g ', opens, why, probe, rate or 0, since or 0, used or 0)
end
