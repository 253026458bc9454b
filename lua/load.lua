#!lua
-- load: put a part of a shard, as ClickHouse has it at one position, into a build.
--
-- Steps
--   1. refuse unless the build is this one, no chunk is missing or doubled, and its keys carry what a new build carries
--   2. write the rows; the last chunk brings none: it checks the counts, and only it makes a head of what was loaded
-- KEYS
--   1 accounts, 2 holds, 3 recent, 4 old, 5 outbox, 6 head   of the build
-- ARGV
--   1 generation   names the build: chunks of another one are void
--   2 before       what stands in the head instead of a position: "0" in a new build, then "load:<chunks so far>"
--   3 after        the same after this chunk; with the last one the position
--   4 chain        of the head: that of a new build; with the last chunk the one at the position
--   5 part         accounts | holds | outcomes | last
--   6 accounts     how many the last chunk must find
--   7 holds        the same
--   8 outcomes     the same, with totals of reversals
--   9 horizon      with the last chunk: all that is not loaded was decided before it, ms
--   10 forgotten   with the last chunk: "position chain" of the last event whose outcome is not loaded
--   11 turned     with the last chunk: when the last of them was decided, or the horizon if that is later, ms
--   then 2 per row, at most 2000 rows:
--   1 field   2 value, as apply.lua writes them; outcomes go into the recent bucket
-- Returns
--   {"DECIDED", position, chain} | {"OUT_OF_SYNC", position, chain, why} | {"CORRUPT", position, chain, what} | error INVALID_ARGUMENT
-- Holds
--   until the last chunk no head fits a replay or a swap

local ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local generation, before, after, chain, part, accounts, holds, outcomes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local horizon, forgotten, turned = ARGV[9], ARGV[10], ARGV[11]
local FIRST, WIDTH = 12, 2
local rows = ({ accounts = { ACCOUNTS, '', chain }, holds = { HOLDS, '', chain }, outcomes = { RECENT, '', chain }, last = {} })[part]
if not rows then return redis.error_reply('INVALID_ARGUMENT part ' .. part) end

-- 1. the build
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why) return { word, head[1] or '', head[2] or '', why } end
if head[1] ~= before or head[3] ~= generation then return stop('OUT_OF_SYNC', 'build') end
for _, hash in ipairs({ ACCOUNTS, HOLDS, RECENT, OLD }) do
    if redis.pcall('HGET', hash, '') ~= head[2] then return stop('OUT_OF_SYNC', 'a key of the build') end
end
if redis.call('EXISTS', OUTBOX) == 0 then return stop('OUT_OF_SYNC', 'outbox') end

-- 2. write
if part == 'last' then
    local missing = redis.call('HLEN', ACCOUNTS) - 1 ~= tonumber(accounts) and 'accounts'
        or redis.call('HLEN', HOLDS) - 1 ~= tonumber(holds) and 'holds'
        or redis.call('HLEN', RECENT) - 1 ~= tonumber(outcomes) and 'outcomes'
    if missing then return stop('CORRUPT', 'number of ' .. missing) end
    for _, hash in ipairs({ ACCOUNTS, HOLDS, RECENT, OLD }) do redis.call('HSET', hash, '', chain) end
    redis.call('XADD', OUTBOX, string.format('%s-%d', after, tonumber(string.sub(chain, 1, 12), 16)), 'empty', '')
    redis.call('XTRIM', OUTBOX, 'MAXLEN', 0)
    redis.call('HSET', HEAD, 'turned', turned, 'begun', forgotten, 'horizon', horizon, 'forgotten', forgotten)
else
    for i = FIRST, #ARGV, WIDTH do
        rows[#rows + 1], rows[#rows + 2] = ARGV[i], ARGV[i + 1]
    end
    redis.call('HSET', unpack(rows))
end
redis.call('HSET', HEAD, 'position', after, 'chain', chain)
return { 'DECIDED', after, chain }
