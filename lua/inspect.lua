#!lua flags=no-writes
-- inspect: read a shard's head, outbox and the state of its keys in one moment.
--
-- Steps
--   1. read the head; say whether every key carries it
--   2. read the outbox whole (it holds what is applied and not yet committed: one batch)
-- KEYS
--   1 accounts, 2 outcomes, 3 outbox, 4 head   as in apply.lua
-- ARGV
--   none
-- Returns
--   {"EMPTY"}                                    no key exists
--   {"BROKEN", position, chain, why}             keys that do not belong together
--   {"WHOLE", position, chain, generation, entries}   entries: {{id, {"prev", chain, "records", ..., "known", ..., "bodies", ...}}, ...}
-- Holds
--   nothing is written

local ACCOUNTS, OUTCOMES, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- 1. the head and the keys
if redis.call('EXISTS', ACCOUNTS, OUTCOMES, OUTBOX, HEAD) == 0 then return { 'EMPTY' } end
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation')
if head.err then return { 'BROKEN', '', '', head.err } end
local position, chain, generation = head[1], head[2], head[3]
local function broken(why) return { 'BROKEN', position or '', chain or '', why } end
if not position or not chain or not generation then return broken('head') end
if redis.pcall('HGET', ACCOUNTS, '') ~= chain then return broken('accounts') end
if redis.pcall('HGET', OUTCOMES, '') ~= chain then return broken('outcomes') end
local last = string.format('%s-%d', position, tonumber(string.sub(chain, 1, 12), 16))
local stream = redis.pcall('XINFO', 'STREAM', OUTBOX)
if stream.err then return broken(stream.err) end
for i = 1, #stream, 2 do
    if stream[i] == 'last-generated-id' and stream[i + 1] ~= last and position ~= '0' then return broken('outbox') end
end

-- 2. the outbox
return { 'WHOLE', position, chain, generation, redis.call('XRANGE', OUTBOX, '-', '+') }
