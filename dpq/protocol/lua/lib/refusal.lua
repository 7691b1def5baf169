-- refusal: refuse a client that does not know the storage format of the queue (STORAGE_FORMAT of protocol/keys.py), or
-- that knows another number of partitions. Such a client would misread the data, or look in the wrong partitions. A
-- partition without settings does not exist yet, or has lost them: that is no reason to refuse.
-- Keys: conf
-- Gives: refusal(format, stored, partitions). `format` is that of conf, `stored` is `partition_count` of conf, and
--        `partitions` is the number that the client knows ("0": not yet; nil: one). It returns the reply of the script,
--        or nil; and the format, or false if it is no number, which is damage (lost).
local FORMAT, OF_MIN = '03', '04' -- the latter of queues whose smallest number runs first

local function refusal(format, stored, partitions)
  if format ~= FORMAT and format ~= OF_MIN then
    format = format and string.match(format, '^%d+$') or false
  end
  if format and format ~= FORMAT and format ~= OF_MIN then
    return { -8, format, FORMAT, conf }, format
  elseif partitions ~= '0' and (stored or '1') ~= (partitions or '1') and (stored or format) then
    return { -7, stored or '1', partitions or '1', conf }, format
  end
  return nil, format
end
