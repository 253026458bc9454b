#!lua
-- replay: fold events of the log onto a shard's keys: the live ones that fell behind, or a build beside them.
--
-- Steps
--   1. refuse unless the head is the one before the first event, and all keys carry it (a new build: no key exists)
--   2. fold every event in memory: balance + delta, everything else as the event says
--   3. write accounts, holds, outcomes, head; clear the outbox: what is in the log needs no publishing
-- KEYS
--   1 accounts, 2 holds, 3 recent, 4 old, 5 outbox, 6 head   as in apply.lua, live or build
-- ARGV
--   1 position     of the head before these events; "" begins a build
--   2 chain        of that head
--   3 position     of the head after them
--   4 chain        of that head
--   5 generation   names this recovery: a repair seen under another one is void
--   6 window       as in apply.lua; outcomes are forgotten by the clock of the events
--   7 clock        when the last of these events was decided, ms
--   then 4 per event, at most 900 events:
--   1 hash of the command id, and of the one that a reversal says was reversed   2 account   3 fingerprint   4 record, as apply.lua writes it
-- Returns
--   {"DECIDED", position, chain} | {"OUT_OF_SYNC", position, chain, why} | {"CORRUPT", position, chain, what} | error INVALID_ARGUMENT
-- Holds
--   the keys are the fold of the log at their head, before and after

local ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local before_position, before_chain, after_position, after_chain, generation, window, clock = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local FIRST, WIDTH = 8, 4
local HASH_BYTES = 14
local match, sub = string.match, string.sub
local ACCOUNT = '^(%-?%d+)([: ].+)$' -- balance, and what follows it

-- @include amount window

-- 1. the head and the keys
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'turned', 'begun', 'horizon', 'forgotten')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why) return { word, head[1] or '', head[2] or '', why } end
if before_position == '' then
    if redis.call('EXISTS', ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD) > 0 then return stop('OUT_OF_SYNC', 'build exists') end
elseif head[1] ~= before_position or head[2] ~= before_chain or not (head[3] and head[4] and head[5] and head[6]) then
    return stop('OUT_OF_SYNC', 'head')
end
local names, place = { '' }, {}
for i = FIRST, #ARGV, WIDTH do
    local name = ARGV[i + 1]
    if not place[name] then
        names[#names + 1] = name
        place[name] = #names
    end
end
for _, key in ipairs({ HOLDS, RECENT, OLD }) do
    local carried = redis.pcall('HMGET', key, '')
    if carried.err or (carried[1] or '') ~= before_chain then return stop('OUT_OF_SYNC', carried.err or key) end
end
local records = redis.pcall('HMGET', ACCOUNTS, unpack(names))
if records.err or (records[1] or '') ~= before_chain then return stop('OUT_OF_SYNC', records.err or 'accounts') end

-- 2. fold: of an account only the balance adds up, all else is as its last event says; so only balances are computed with
local changed, outcomes, holds, totals = {}, { RECENT, '', after_chain }, {}, {}
for i = FIRST, #ARGV, WIDTH do
    local id, name, record = ARGV[i], ARGV[i + 1], ARGV[i + 3]
    outcomes[#outcomes + 1], outcomes[#outcomes + 2] = sub(id, 1, HASH_BYTES), ARGV[i + 2] .. record
    local delta, rest, tail = match(record, '^......%d+ (%-?%d+) ([^\t]+)(.*)$')
    if not delta then rest, tail = match(record, '^......%d+ [A-Z]%S* ([^\t]+)(.*)$') end -- a rejection
    if not rest then return redis.error_reply('INVALID_ARGUMENT record of event ' .. (i - FIRST) / WIDTH + 1) end
    if delta then
        local at = changed[name]
        if not at then
            at = {}
            local before = records[place[name]]
            if before then
                local balance = match(before, ACCOUNT)
                if not balance or #balance > 19 then return stop('CORRUPT', 'account ' .. name) end
                at.high, at.low = amount(balance)
                if digits(at.high, at.low) ~= balance then return stop('CORRUPT', 'account ' .. name) end
            end
            changed[name] = at
        end
        local high, low = amount(delta)
        if at.high then high, low = plus(at.high, at.low, high, low) end
        at.high, at.low, at.after = high, low, rest
    end
    if tail ~= '' then
        local hold, remaining, expires, counter = match(tail, '^\thold\t([^\t]+)\t(%d+)\t([^\t]+)\t([^\t]*)')
        if hold then holds[hold] = remaining == '0' and '' or table.concat({ remaining, expires, counter, name }, '\t') end
        local total = match(tail, '^\treversed\t[^\t]+\t(%d+)')
        if total then totals[sub(id, HASH_BYTES + 1)] = total end
    end
end
local written = { ACCOUNTS, '', after_chain }
for name, at in pairs(changed) do
    local balance, rest = match(at.after, ACCOUNT)
    if not balance then return stop('CORRUPT', 'account ' .. name) end
    written[#written + 1], written[#written + 2] = name, digits(at.high, at.low) .. rest
end

-- 3. write
if before_position == '' then
    local genesis = after_position .. ' ' .. after_chain
    redis.call('HSET', HEAD, 'turned', '0', 'begun', genesis, 'horizon', '0', 'forgotten', genesis)
else
    turn(before_position .. ' ' .. before_chain, clock, head[3], head[4])
end
redis.call('HSET', unpack(written))
redis.call('HSET', unpack(outcomes))
for _, key in ipairs({ HOLDS, OLD }) do redis.call('HSET', key, '', after_chain) end
for id, record in pairs(holds) do
    if record == '' then redis.call('HDEL', HOLDS, id) else redis.call('HSET', HOLDS, id, record) end
end
for id, total in pairs(totals) do
    for _, bucket in ipairs({ RECENT, OLD }) do
        if redis.call('HEXISTS', bucket, id) == 1 then redis.call('HSET', bucket, id .. '\n', total) end
    end
end
redis.call('DEL', OUTBOX)
local entry = string.format('%s-%d', after_position, tonumber(string.sub(after_chain, 1, 12), 16))
redis.call('XADD', OUTBOX, entry == '0-0' and '0-1' or entry, 'empty', '')
redis.call('XTRIM', OUTBOX, 'MAXLEN', 0)
redis.call('HSET', HEAD, 'position', after_position, 'chain', after_chain, 'generation', generation)
return { 'DECIDED', after_position, after_chain }
