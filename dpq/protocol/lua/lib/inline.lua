-- inline: a short payload stands in the record itself, behind a line feed. A longer one has a field of its own, since
-- each change of the record would write it again, to replicas and to the disk as well.
-- Gives: inline(body, payloads): what stands behind the record, "" for a long payload. `payloads` is the queue's
--        setting: unless it is "inline", or not set, it is "" for each.
local function inline(body, payloads)
  return #body <= 512 and (payloads or 'inline') == 'inline' and '\n' .. body or ''
end
