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
--   4 bodies     the commands as they were received, opaque, in their order; the outbox keeps them
--   then 7 per command, at most 900 commands (Lua unpacks at most about 8,000 values):
--   1 id   2 account   3 operation (open debit credit repair refuse)   4 terms (include/<operation>.lua; refuse: the reason)
--   5 unit ("USD/2")   6 fingerprint   7 conditions ("<deadline ms or -> <sequence or ->")
-- Returns
--   {"DECIDED", position, chain, records, known}
--     records   of what was decided now, in order, each with its fingerprint before it and "\n" between two:
--               "<position> <decided at ms> <applied or REASON> <delta> <account record or ->"
--     known     the other commands, one a line: "<number in the call, from 1> <remembered, or reused: with another payload> <record>"
--   {"OUT_OF_SYNC", position, chain, why}   nothing written; the caller recovers
--   {"CORRUPT", position, chain, what}      nothing written; the caller rebuilds the shard
--   error INVALID_ARGUMENT                  nothing written; a fault of the caller's code
-- Holds
--   one outcome per id; position and sequence without gaps; balance - held >= floor after a debit; amounts exact to 18 digits;
--   whatever goes wrong, either everything of a call is written or nothing

-- @include amount text account standing checks open debit credit repair

local ACCOUNTS, OUTCOMES, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local believed_position, believed_chain, now = ARGV[1], ARGV[2], ARGV[3]
local FIRST, WIDTH = 5, 7
local decide = { open = open, debit = debit, credit = credit, repair = repair }
local sub, sha1hex = string.sub, redis.sha1hex

-- 1. the head, the arguments and the keys
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why) return { word, head[1] or '', head[2] or '', why } end
if head[1] ~= believed_position or head[2] ~= believed_chain then return stop('OUT_OF_SYNC', 'head') end

local function invalid(why) return redis.error_reply('INVALID_ARGUMENT ' .. why) end
if (#ARGV - FIRST + 1) % WIDTH ~= 0 then return invalid('number of arguments') end
if not string.find(now, '^%d+$') then return invalid('clock') end
local ids, names, place, count = { '' }, { '' }, {}, 0
for i = FIRST, #ARGV, WIDTH do
    local id, name = ARGV[i], ARGV[i + 1]
    local why = malformed(id, name, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
    if why then return invalid(why .. ' of command ' .. id) end
    count = count + 1
    ids[count + 1] = id
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
    local a = records[at] and account(records[at])
    if records[at] and not a then return stop('CORRUPT', 'account ' .. name) end
    accounts[name] = a and standing(a)
end

local position, chain, counter, at = tonumber(believed_position), believed_chain, {}, ' ' .. now .. ' '
local known, skipped, lines, fresh = {}, {}, {}, 0
local outcomes, written = { OUTCOMES, '', '' }, 3
for number = 1, count do
    local i = FIRST + (number - 1) * WIDTH
    local id, name, operation, terms, unit, fingerprint = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
    local outcome = decided[id] or remembered[number + 1]
    if outcome then
        local word = sub(outcome, 1, 16) == fingerprint and ' remembered ' or ' reused '
        known[#known + 1], skipped[#skipped + 1] = number .. word .. sub(outcome, 17), number
    else
        local a, word, delta, after = accounts[name], terms, nil, nil
        if operation ~= 'refuse' then word = unmet(operation, a, unit, ARGV[i + 6], now) end
        if not word then word, delta, after = decide[operation](a, terms, unit, head[3]) end
        position = position + 1
        local p1, p2 = counted(counter, position)
        if after then
            accounts[name], changed[name] = after, true
            local b1, b2, b3 = balance_text(after)
            local s1, s2 = counted(after.counter, after.sequence)
            outcome = fingerprint .. p1 .. p2 .. at .. 'applied ' .. delta .. ' ' .. b1 .. b2 .. b3 .. after.held_text .. s1 .. s2 .. after.tail
        else
            outcome = fingerprint .. p1 .. p2 .. at .. word .. ' 0 ' .. (a and unchanged(a) or '-')
        end
        chain = sha1hex(chain .. id .. '\n' .. outcome)
        decided[id], fresh, written = outcome, fresh + 1, written + 2
        lines[fresh], outcomes[written - 1], outcomes[written] = outcome, id, outcome
    end
end
local answer = { 'DECIDED', format('%d', position), chain, table.concat(lines, '\n'), table.concat(known, '\n') }
if chain == believed_chain then return answer end

-- 3. write: the outbox first, the one write that can still refuse
local entry = redis.pcall('XADD', OUTBOX, 'NOMKSTREAM', format('%d-%d', position, tonumber(sub(chain, 1, 12), 16)),
    'prev', believed_chain, 'records', answer[4], 'known', table.concat(skipped, ' '), 'bodies', ARGV[4])
if not entry or entry.err then return stop('OUT_OF_SYNC', entry and entry.err or 'outbox') end
local states = { ACCOUNTS, '', chain }
for name in pairs(changed) do
    states[#states + 1], states[#states + 2] = name, account_record(accounts[name])
end
outcomes[3] = chain
redis.call('HSET', unpack(states))
redis.call('HSET', unpack(outcomes))
redis.call('HSET', HEAD, 'position', answer[2], 'chain', chain)
return answer
