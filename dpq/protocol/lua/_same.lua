-- _same: a client that takes the queue to have another number of partitions would look and write in the wrong
-- ones: it is refused. (A partition without settings is not there, or has lost them: no reason to refuse.)
-- Wants: conf; format, stored: its `format` and `partitions` or false; partitions, as the client knows it, 0 before it
-- does. None is one for both.
-- Returns from the script: a refusal.
if partitions ~= '0' and (stored or '1') ~= (partitions or '1') and (stored or format) then
  return { -7, stored or '1', partitions or '1', conf }
end
