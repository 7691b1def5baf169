-- refusal: refuse a client that does not know the storage format of the queue (FORMATS of protocol/keys.py), or that
-- knows another number of partitions. It would misread the data, or look in the wrong partitions. A partition without
-- settings does not exist yet, or has lost them: that is no reason to refuse.
-- Keys: conf
-- Gives: refusal(format, stored, partitions, units), for `format` and `partitions` of conf, the partitions that the
--        client knows ("0": not yet; nil: one), and whether it names what format 3 does not have, as units. It returns
--        the reply of the script, or nil; and the format, or false if it is no number, which is damage (lost).
local function refusal(format, stored, partitions, units)
  if format ~= '4' then
    format = format and string.match(format, '^%d+$') or false
  end
  if format and format ~= '4' and format ~= '3' then
    return { -8, format, '4', conf }, format
  elseif partitions ~= '0' and (stored or '1') ~= (partitions or '1') and (stored or format) then
    return { -7, stored or '1', partitions or '1', conf }, format
  elseif units and format == '3' then
    return redis.error_reply('ERR DPQ: a queue of format 3 has no units beside requests, '
      .. 'no members and no weights: run dpq upgrade'), format
  end
  return nil, format
end
