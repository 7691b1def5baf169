-- refusal: a client that takes the queue for another than it is would read and write what it does not understand. It
-- is refused when it knows neither the storage format (the numbers are FORMATS of protocol/keys.py), or another
-- number of partitions: then it would look in the wrong ones. A partition without settings is not there, or has lost
-- them: no reason to refuse.
-- Keys: conf
-- Gives: refusal(format, stored, partitions), for `format` and `partitions` as conf says them, and the partitions that
--        the client knows of ("0" before it does; nil is one): what the script answers, or nil; and the format, false
--        when it is no number, which is damage (lost).
local function refusal(format, stored, partitions)
  if format ~= '4' then
    format = format and string.match(format, '^%d+$') or false
  end
  if format and format ~= '4' and format ~= '3' then
    return { -8, format, '4', conf }, format
  elseif partitions ~= '0' and (stored or '1') ~= (partitions or '1') and (stored or format) then
    return { -7, stored or '1', partitions or '1', conf }, format
  end
  return nil, format
end
