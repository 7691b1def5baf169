-- hash_table: make a hash a table. Redis keeps a hash of up to 512 short fields as a list, and searches that list from
-- its front. With 400 groups, this costs a third of each call. A field longer than 64 bytes makes the hash a table. It
-- stays a table until it is empty, or is read from an RDB file. So the long field need not stay.
-- Gives: as_table(hash, worth_it), to be called after each store. Its two calls are worth it after a store of many
--        fields, and else now and then.
local LONG = string.rep('-', 65)

local function as_table(hash, worth_it)
  if worth_it then
    redis.call('HSET', hash, LONG, '')
    redis.call('HDEL', hash, LONG)
  end
end
