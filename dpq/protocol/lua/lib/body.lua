-- body: the payload of a task stands behind its record, or in a field of its own when it is long.
-- Keys: payload
-- Gives: record_and_body(id, raw), for what meta says of an id: the record alone, and the payload, or false.
local function record_and_body(id, raw)
  local at = string.find(raw, '\n', 1, true)
  if at then
    return string.sub(raw, 1, at - 1), string.sub(raw, at + 1)
  end
  return raw, redis.call('HGET', payload, id)
end
