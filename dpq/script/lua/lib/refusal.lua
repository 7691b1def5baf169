-- refusal: refuse a client that does not know the storage format of the queue (STORAGE_FORMAT of script/keys.py). It
-- would misread the data.
-- Keys: conf
-- Gives: refusal(format), for the format in conf. It returns the reply of the script, or nil; and the format, or false
--        if it is no number, which is damage.
local FORMAT, OF_MIN = '05', '06' -- the latter of queues whose smallest number runs first

local function refusal(format)
  if format ~= FORMAT and format ~= OF_MIN then
    format = format and string.match(format, '^%d+$') or false
  end
  if format and format ~= FORMAT and format ~= OF_MIN then
    return { -8, format, FORMAT, conf }, format
  end
  return nil, format
end
