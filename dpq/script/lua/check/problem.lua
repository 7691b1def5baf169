-- problem: collect problems for the reply of check.
-- Gives: reply; problem(kind, subject, detail), which adds to it and returns the kind.
local reply = { '0' }
local function problem(kind, subject, detail)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = kind, subject, detail or ''
  return kind
end
