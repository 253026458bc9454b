#!lua
-- swap: put a finished build in the place of a shard's live keys, all at once.
--
-- Steps
--   1. refuse unless the build is complete and stands at the head that the caller built it to
--   2. drop the live keys, rename the build's
-- KEYS
--   1-6 the build's accounts, holds, recent, old, outbox, head
--   7-12 the live ones
-- ARGV
--   1 position   the build's head
--   2 chain
-- Returns
--   {"DECIDED", position, chain} | {"OUT_OF_SYNC", position, chain, why}
-- Holds
--   the live keys always belong together: nobody sees half of each

local ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local LIVE_ACCOUNTS, LIVE_HOLDS, LIVE_RECENT, LIVE_OLD, LIVE_OUTBOX, LIVE_HEAD = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local position, chain = ARGV[1], ARGV[2]

-- 1. the build
local head = redis.pcall('HMGET', HEAD, 'position', 'chain')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
if head[1] ~= position or head[2] ~= chain or redis.call('EXISTS', ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD) < 6 then
    return { 'OUT_OF_SYNC', head[1] or '', head[2] or '', 'build' }
end

-- 2. swap
redis.call('UNLINK', LIVE_ACCOUNTS, LIVE_HOLDS, LIVE_RECENT, LIVE_OLD, LIVE_OUTBOX, LIVE_HEAD)
redis.call('RENAME', ACCOUNTS, LIVE_ACCOUNTS)
redis.call('RENAME', HOLDS, LIVE_HOLDS)
redis.call('RENAME', RECENT, LIVE_RECENT)
redis.call('RENAME', OLD, LIVE_OLD)
redis.call('RENAME', OUTBOX, LIVE_OUTBOX)
redis.call('RENAME', HEAD, LIVE_HEAD)
return { 'DECIDED', position, chain }
