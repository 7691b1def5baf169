-- shape: what texts of one kind have in common, to put dead letters together.
-- Gives: shape(text): its first 200 bytes, with "#" for each number.
local function shape(text)
  return string.sub((string.gsub(text, '%d+', '#')), 1, 200)
end
