-- body: find where the payload of a task stands. A short payload stands in the record itself, behind a line feed. A
-- longer payload has a field of its own. Else each change of the record would write it again, to replicas and to the
-- disk as well.
-- Gives: inline(body, payloads), what stands behind the record: "" for a long payload. `payloads` is the queue's
--        setting. Unless it is "inline", or not set, the result is "" for every payload;
--        record_and_body(id, raw), for what meta has for an id. It returns the record alone; and the payload, or false
--        if it is missing.
local function inline(body, payloads)
  return #body <= 512 and (payloads or 'inline') == 'inline' and '\n' .. body or ''
end

local function record_and_body(id, raw)
  local at = string.find(raw, '\n', 1, true)
  if at then
    return string.sub(raw, 1, at - 1), string.sub(raw, at + 1)
  end
  return raw, redis.call('HGET', payload, id)
end
