#!lua
-- apply: decide commands of one shard in their order, and remember every outcome.
--
-- Steps
--   1. refuse unless the head is the one the caller believes in, the arguments are well-formed, and all keys carry the head
--   2. per command: a remembered id gets its outcome back; any other is decided in memory
--   3. only then write: outbox, accounts, outcomes, head
-- KEYS
--   1 accounts   hash    account -> "balance held sequence floor unit status"; '' -> chain at the last write
--   2 outcomes   hash    command id -> fingerprint (16 bytes) and outcome record; '' -> chain at the last write
--   3 outbox     stream  one entry per call, id "<position>-<first 48 bits of the chain>"
--   4 head       hash    position, chain, generation
-- ARGV
--   1 position   the head that the caller believes in
--   2 chain      hexadecimal
--   3 now        the writer's clock, ms since 1970
--   then 8 per command, at most 900 commands (Lua unpacks at most about 8,000 values):
--   1 id   2 account   3 operation (open debit credit repair refuse)   4 terms (include/<operation>.lua; refuse: the reason)
--   5 unit ("USD/2")   6 fingerprint   7 conditions ("<deadline ms or -> <sequence or ->")   8 body, opaque
-- Returns
--   {"DECIDED", position, chain, answer ...}, one answer per command:
--     "new <record>" | "remembered <record>" | "reused <record>" (known id, other payload)
--     record = "<position> <decided at ms> <applied or REASON> <delta> <account record or ->"
--   {"OUT_OF_SYNC", position, chain, why}   nothing written; the caller recovers
--   {"CORRUPT", position, chain, what}      nothing written; the caller rebuilds the shard
--   error INVALID_ARGUMENT                  nothing written; a fault of the caller's code
-- Holds
--   one outcome per id; position and sequence without gaps; balance - held >= floor after a debit; amounts exact to 18 digits;
--   whatever goes wrong, either everything of a call is written or nothing

-- @include amount account open debit credit repair checks

local ACCOUNTS, OUTCOMES, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local believed_position, believed_chain, now = ARGV[1], ARGV[2], ARGV[3]
local FIRST, WIDTH = 4, 8
local decide = { open = open, debit = debit, credit = credit, repair = repair }

-- 1. the head, the arguments and the keys
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why) return { word, head[1] or '', head[2] or '', why } end
if head[1] ~= believed_position or head[2] ~= believed_chain then return stop('OUT_OF_SYNC', 'head') end

local function invalid(why) return redis.error_reply('INVALID_ARGUMENT ' .. why) end
if (#ARGV - FIRST + 1) % WIDTH ~= 0 then return invalid('number of arguments') end
if not string.find(now, '^%d+$') then return invalid('clock') end
local ids, names, place = { '' }, { '' }, {}
for i = FIRST, #ARGV, WIDTH do
    local id, name = ARGV[i], ARGV[i + 1]
    local why = malformed(id, name, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
    if why then return invalid(why .. ' of command ' .. id) end
    ids[#ids + 1] = id
    if not place[name] then
        names[#names + 1] = name
        place[name] = #names
    end
end
local remembered = redis.pcall('HMGET', OUTCOMES, unpack(ids))
if remembered.err or remembered[1] ~= believed_chain then return stop('OUT_OF_SYNC', remembered.err or 'outcomes') end
local records = redis.pcall('HMGET', ACCOUNTS, unpack(names))
if records.err or records[1] ~= believed_chain then return stop('OUT_OF_SYNC', records.err or 'accounts') end

-- 2. decide, in memory
local accounts, changed, decided = {}, {}, {}
for name, at in pairs(place) do
    accounts[name] = records[at] and account(records[at])
    if records[at] and not accounts[name] then return stop('CORRUPT', 'account ' .. name) end
end

local position, chain = tonumber(believed_position), believed_chain
local answers = { 'DECIDED', '', '' }
local outbox = { OUTBOX, 'NOMKSTREAM', '', 'prev', believed_chain }
local outcomes = { OUTCOMES, '', '' }
for i = FIRST, #ARGV, WIDTH do
    local id, name, operation, terms, unit, fingerprint = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
    local known = decided[id] or remembered[(i - FIRST) / WIDTH + 2]
    if known then
        local word = string.sub(known, 1, 16) == fingerprint and 'remembered ' or 'reused '
        answers[#answers + 1] = word .. string.sub(known, 17)
    else
        local a, word, delta, after = accounts[name], terms, nil, nil
        if operation ~= 'refuse' then word = unmet(operation, a, unit, ARGV[i + 6], tonumber(now)) end
        if not word then word, delta, after = decide[operation](a, terms, unit, head[3]) end
        if after then
            accounts[name] = after
            records[place[name]] = account_record(after)
            changed[name] = true
        end
        position = position + 1
        local record = string.format('%d %s %s %s %s', position, now, word, delta or '0', records[place[name]] or '-')
        local outcome = fingerprint .. record
        chain = redis.sha1hex(chain .. '\n' .. id .. '\n' .. name .. '\n' .. outcome)
        decided[id] = outcome
        outcomes[#outcomes + 1], outcomes[#outcomes + 2] = id, outcome
        outbox[#outbox + 1], outbox[#outbox + 2] = chain .. ' ' .. record, ARGV[i + 7]
        answers[#answers + 1] = 'new ' .. record
    end
end
answers[2], answers[3] = string.format('%d', position), chain
if chain == believed_chain then return answers end

-- 3. write: the outbox first, the one write that can still refuse
outbox[3] = string.format('%d-%d', position, tonumber(string.sub(chain, 1, 12), 16))
local entry = redis.pcall('XADD', unpack(outbox))
if not entry or entry.err then return stop('OUT_OF_SYNC', entry and entry.err or 'outbox') end
local written = { ACCOUNTS, '', chain }
for name in pairs(changed) do
    written[#written + 1], written[#written + 2] = name, records[place[name]]
end
outcomes[3] = chain
redis.call('HSET', unpack(written))
redis.call('HSET', unpack(outcomes))
redis.call('HSET', HEAD, 'position', answers[2], 'chain', chain)
return answers
