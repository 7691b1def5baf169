-- refusal: refuse a client that does not know the storage format of the queue (STORAGE_FORMAT of script/keys.py). It
-- would misread the data. Each script that needs this file answers {-8, stored format, known format, conf} to it.
-- Gives: refusal(format), for the format in conf. It returns the reply of the script, or nil; and the format, or false
--        if it is no number, which is damage.
local FORMAT = '05'

local function refusal(format)
  if format == FORMAT then
    return nil, format
  end
  format = format and string.match(format, '^%d+$') or false
  return format and { -8, format, FORMAT, conf } or nil, format
end
