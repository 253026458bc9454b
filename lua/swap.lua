#!lua
-- swap: put a finished build in the place of a shard's live keys, all at once.
--
-- Steps
--   1. refuse unless the build is complete and stands at the head that the caller built it to
--   2. drop the live keys, rename the build's
-- KEYS
--   1-4 the build's accounts, outcomes, outbox, head
--   5-8 the live accounts, outcomes, outbox, head
-- ARGV
--   1 position   the build's head
--   2 chain
-- Returns
--   {"DECIDED", position, chain} | {"OUT_OF_SYNC", position, chain, why}
-- Holds
--   the live keys always belong together: nobody sees half of each

local ACCOUNTS, OUTCOMES, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local LIVE_ACCOUNTS, LIVE_OUTCOMES, LIVE_OUTBOX, LIVE_HEAD = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local position, chain = ARGV[1], ARGV[2]

-- 1. the build
local head = redis.pcall('HMGET', HEAD, 'position', 'chain')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
if head[1] ~= position or head[2] ~= chain or redis.call('EXISTS', ACCOUNTS, OUTCOMES, OUTBOX, HEAD) < 4 then
    return { 'OUT_OF_SYNC', head[1] or '', head[2] or '', 'build' }
end

-- 2. swap
redis.call('UNLINK', LIVE_ACCOUNTS, LIVE_OUTCOMES, LIVE_OUTBOX, LIVE_HEAD)
redis.call('RENAME', ACCOUNTS, LIVE_ACCOUNTS)
redis.call('RENAME', OUTCOMES, LIVE_OUTCOMES)
redis.call('RENAME', OUTBOX, LIVE_OUTBOX)
redis.call('RENAME', HEAD, LIVE_HEAD)
return { 'DECIDED', position, chain }
