#!lua flags=no-writes
-- inspect: read a shard's head, outbox and the state of its keys in one moment.
--
-- Steps
--   1. read the head; say whether every key carries it
--   2. read the outbox whole (it holds what is applied and not yet committed: one batch)
-- KEYS
--   1 accounts, 2 holds, 3 recent, 4 old, 5 outbox, 6 head   as in apply.lua
-- ARGV
--   none
-- Returns
--   {"EMPTY"}                                    no key exists
--   {"BROKEN", position, chain, why}             keys that do not belong together
--   {"WHOLE", position, chain, generation, entries}   entries: {{id, {"before", "position chain", "now", ms,
--                                                     "known", numbers of commands, "bodies", ...}}, ...}
-- Holds
--   nothing is written

local ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- 1. the head and the keys
if redis.call('EXISTS', ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD) == 0 then return { 'EMPTY' } end
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation', 'turned', 'begun', 'horizon', 'forgotten')
if head.err then return { 'BROKEN', '', '', head.err } end
local position, chain, generation = head[1], head[2], head[3]
local function broken(why) return { 'BROKEN', position or '', chain or '', why } end
for i = 1, 7 do
    if not head[i] then return broken('head') end
end
for _, key in ipairs({ ACCOUNTS, HOLDS, RECENT, OLD }) do
    if redis.pcall('HGET', key, '') ~= chain then return broken(key) end
end
local last = string.format('%s-%d', position, tonumber(string.sub(chain, 1, 12), 16))
local stream = redis.pcall('XINFO', 'STREAM', OUTBOX)
if stream.err then return broken(stream.err) end
for i = 1, #stream, 2 do
    if stream[i] == 'last-generated-id' and stream[i + 1] ~= last and position ~= '0' then return broken('outbox') end
end

-- 2. the outbox
return { 'WHOLE', position, chain, generation, redis.call('XRANGE', OUTBOX, '-', '+') }
