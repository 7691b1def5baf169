-- types: find keys of another type than DPQ writes, and on demand remove them: they hold no task, and every
-- script that needs one breaks off in its middle.
--
-- KEYS[1]  ready      ZSET    order and id -> score
-- KEYS[2]  delayed    ZSET    id -> due, ms
-- KEYS[3]  invisible  ZSET    id -> lease end, ms
-- KEYS[4]  waiting    ZSET    group, score, order and id, behind a head or in a closed group
-- KEYS[5]  groups     HASH    group -> its head
-- KEYS[6]  closed     ZSET    group -> opens, ms
-- KEYS[7]  payload    HASH    id -> bytes
-- KEYS[8]  meta       HASH    id -> record
-- KEYS[9]  dead       ZSET    id -> when, ms
-- KEYS[10] keys       HASH    unique key -> id
-- KEYS[11] conf       HASH    settings
-- KEYS[12] stats      HASH    running totals
-- KEYS[13] wake       ZSET    the marker that waiting consumers block on
-- KEYS[14] tick       ZSET    the marker that daemons block on
-- KEYS[15] limits     HASH    what is limited -> how
-- KEYS[16] gates      HASH    group, "" for the queue -> what its limit has granted
-- KEYS[17] tracked    ZSET    leases whose end lets others run
-- KEYS[18] workers    HASH    worker -> when it was seen, and what it said
-- ARGV[1]  now        ms, or "" for the server's clock
-- ARGV[2]  remove     "1": they go; else this only looks
-- ARGV[3]  partitions of the queue; 0 when the caller does not know: then conf is not removed, since what is
--          written in its place says how many there are
--
-- Returns as check does: {"0", kind, subject, detail, kind, ...}; the subject is the key. {-8, ...} to a client
-- that knows another format (_known).
-- Lost reply: safe to send again: what is removed is removed, and is not named a second time.
local ready, delayed, invisible, waiting, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local closed, payload, meta, dead, keys = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local conf, stats, wake, tick, limits = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local gates, tracked, workers = KEYS[16], KEYS[17], KEYS[18]
local now, remove, partitions = ARGV[1], ARGV[2], ARGV[3]

-- @include _now
local format = redis.pcall('HGET', conf, 'format')
format = not (format and format.err) and format -- conf may be of another type
-- @include _known
local reply, gone = { '0' }, {}
local kept = remove == '1' and partitions == '0' and conf
local function problem(kind, subject, detail)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = kind, subject, detail
end

-- Asked by the commands that a dashboard may call, not by TYPE.
local function look(command, kind, names)
  for _, key in ipairs(names) do
    local size = redis.pcall(command, key)
    if key ~= kept and not tonumber(size) then
      if not string.find(size.err, 'WRONGTYPE', 1, true) then
        return size
      end
      problem('wrong type', key, 'not a ' .. kind)
      if remove == '1' then
        redis.call('UNLINK', key)
        gone[key] = true
      end
    end
  end
end

local refused = look('ZCARD', 'sorted set', { ready, delayed, invisible, waiting, closed, dead, wake, tick, tracked })
  or look('HLEN', 'hash', { groups, payload, meta, keys, conf, stats, limits, gates, workers })
if gone[stats] then -- the places given so far are lost: what comes now stands behind all
  redis.call('HSET', stats, 'pushed', stamp)
end
if gone[conf] then -- and the turns; the limits go on to hold
  redis.call('HSET', conf, 'turns', stamp, 'gated', '1', 'heavy', '1')
  if partitions ~= '1' then
    redis.call('HSET', conf, 'partitions', partitions)
  end
end
return refused or reply
