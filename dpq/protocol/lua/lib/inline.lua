-- inline: a short payload stands in the record itself, behind a line feed. A longer one has a field of its own, since
-- each change of the record would write it again, to replicas and to the disk as well.
-- Gives: inline(body): what stands behind the record, "" for a long payload.
local function inline(body)
  return #body <= 512 and '\n' .. body or ''
end
