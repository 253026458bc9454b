#!lua flags=no-writes
-- recall: read remembered outcomes, in the state in which an outbox was read.
--
-- Steps
--   1. refuse unless the head still is the one of the outbox
--   2. look in the recent bucket, then in the old one
-- KEYS
--   1 recent, 2 old, 3 head   as in apply.lua
-- ARGV
--   1 position   of the head
--   2 chain
--   then 1 per command, at most 900 commands:
--   1 hash       of its id
-- Returns
--   {"DECIDED", position, chain, outcomes}   one for each id, as apply.lua writes them; "" for one that is not remembered
--   {"OUT_OF_SYNC", position, chain, why}
-- Holds
--   nothing is written

local RECENT, OLD, HEAD = KEYS[1], KEYS[2], KEYS[3]
local position, chain = ARGV[1], ARGV[2]
local FIRST, WIDTH = 3, 1

-- 1. the head
local head = redis.pcall('HMGET', HEAD, 'position', 'chain')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
if head[1] ~= position or head[2] ~= chain then return { 'OUT_OF_SYNC', head[1] or '', head[2] or '', 'head' } end

-- 2. the outcomes
local outcomes = {}
for i = FIRST, #ARGV, WIDTH do
    outcomes[#outcomes + 1] = redis.call('HGET', RECENT, ARGV[i]) or redis.call('HGET', OLD, ARGV[i]) or ''
end
return { 'DECIDED', position, chain, outcomes }
