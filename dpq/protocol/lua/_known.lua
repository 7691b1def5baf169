-- _known: a client that knows another storage format would read and write what it does not understand: refused.
-- (Without settings nobody is: see _same.)
-- Wants: conf; format, the stored one or false. The number is STORAGE_FORMAT of protocol/keys.py. What is
-- no number is damage (_lost): format is false then.
-- Returns from the script: a refusal.
format = format and string.match(format, '^%d+$') or false
if format and format ~= '3' then
  return { -8, format, '3', conf }
end
