#!lua
-- load: put a part of a shard, as ClickHouse has it at one position, into a build.
--
-- Steps
--   1. refuse unless the build is this one, no chunk is missing or doubled, and its keys carry what a new build carries
--   2. write the rows; the last chunk brings none: it checks the counts, and only it makes a head of what was loaded
-- KEYS
--   1 accounts, 2 outcomes, 3 outbox, 4 head   of the build
-- ARGV
--   1 generation   names the build: chunks of another one are void
--   2 before       what stands in the head instead of a position: "0" in a new build, then "load:<chunks so far>"
--   3 after        the same after this chunk; with the last one the position
--   4 chain        of the head: that of a new build; with the last chunk the one at the position
--   5 part         accounts | outcomes | last
--   6 accounts     how many the last chunk must find; there is one outcome per position
--   then 2 per row, at most 2000 rows:
--   1 account or command id   2 account record, or fingerprint and outcome record, as apply.lua writes them
-- Returns
--   {"DECIDED", position, chain} | {"OUT_OF_SYNC", position, chain, why} | {"CORRUPT", position, chain, what} | error INVALID_ARGUMENT
-- Holds
--   until the last chunk no head fits a replay or a swap

local ACCOUNTS, OUTCOMES, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local generation, before, after, chain, part, accounts = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local FIRST, WIDTH = 7, 2

-- 1. the build
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why) return { word, head[1] or '', head[2] or '', why } end
if head[1] ~= before or head[3] ~= generation then return stop('OUT_OF_SYNC', 'build') end
for _, held in ipairs({ redis.pcall('HGET', ACCOUNTS, ''), redis.pcall('HGET', OUTCOMES, '') }) do
    if held ~= head[2] then return stop('OUT_OF_SYNC', 'a key of the build') end
end
if redis.call('EXISTS', OUTBOX) == 0 then return stop('OUT_OF_SYNC', 'outbox') end

-- 2. write
if part == 'last' then
    local missing = redis.call('HLEN', ACCOUNTS) - 1 ~= tonumber(accounts) and 'accounts'
        or redis.call('HLEN', OUTCOMES) - 1 ~= tonumber(after) and 'outcomes'
    if missing then return stop('CORRUPT', 'number of ' .. missing) end
    redis.call('HSET', ACCOUNTS, '', chain)
    redis.call('HSET', OUTCOMES, '', chain)
    redis.call('XADD', OUTBOX, string.format('%s-%d', after, tonumber(string.sub(chain, 1, 12), 16)), 'empty', '')
    redis.call('XTRIM', OUTBOX, 'MAXLEN', 0)
elseif part == 'accounts' or part == 'outcomes' then
    local rows = { OUTCOMES, '', chain }
    if part == 'accounts' then rows[1] = ACCOUNTS end
    for i = FIRST, #ARGV, WIDTH do
        rows[#rows + 1], rows[#rows + 2] = ARGV[i], ARGV[i + 1]
    end
    redis.call('HSET', unpack(rows))
else
    return redis.error_reply('INVALID_ARGUMENT part ' .. part)
end
redis.call('HSET', HEAD, 'position', after, 'chain', chain)
return { 'DECIDED', after, chain }
