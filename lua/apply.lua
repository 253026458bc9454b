#!lua
-- apply: decide commands of one shard in their order, and remember every outcome.
--
-- Steps
--   1. refuse unless the head is the one the caller believes in, the arguments are well-formed, and all keys carry the head
--   2. per command: a remembered id gets its outcome back; any other is decided in memory
--   3. only then write: outbox, turn of the buckets, accounts, holds, outcomes, head
-- KEYS
--   1 accounts   hash    account -> "balance held sequence floor[:ceiling] unit status"; '' -> chain at the last write, as in 2 to 4
--   2 holds      hash    hold's command id -> "remaining \t expires ms or - \t counter account or nothing \t account"
--   3 recent     hash    command id -> fingerprint (16 bytes) and outcome record; id and "\n" -> total reversed of it
--   4 old        hash    the same, of the window before
--   5 outbox     stream  one entry per call, id "<position>-<first 48 bits of the chain>": the commands; their outcomes are in 3 and 4
--   6 head       hash    position, chain, generation, and how far outcomes are remembered (include/window.lua)
-- ARGV
--   1 position   the head that the caller believes in
--   2 chain      hexadecimal
--   3 next       the chain after this call: over the one before it and all that it is given (lua/head.go)
--   4 now        the writer's clock, ms since 1970
--   5 window     for how long outcomes are remembered at least, ms; 0 = for ever
--   6 asked      when the first of these commands was first asked for, ms since 1970
--   7 through    "position chain" through which all old ones of them were looked up in ClickHouse, and not found; or nothing
--   8 bodies     the commands as they were received, opaque, in their order; the outbox keeps them
--   then 4 per command, at most 900 commands (Lua unpacks at most about 8,000 values):
--   1 id   2 account   3 fingerprint   4 what it asks for (include/checks.lua); commands that ask for the same share one text
-- Returns
--   {"DECIDED", position, chain, known, records}
--     known     commands with a remembered id, one a line: "<number in the call, from 1> <remembered, or reused: with another payload> <record>"
--     records   of the others, in order, each with its fingerprint before it:
--               "<position> <decided at ms> <applied or REASON> <delta> <account record or ->" and what it booked (lua/record.go)
--   {"TOO_OLD", position, chain, horizon, forgotten}   nothing written; the caller looks old commands up in ClickHouse
--   {"OUT_OF_SYNC", position, chain, why}   nothing written; the caller recovers
--   {"CORRUPT", position, chain, what}      nothing written; the caller rebuilds the shard
--   error INVALID_ARGUMENT                  nothing written; a fault of the caller's code
-- Holds
--   one outcome per id; position and sequence without gaps; balance - held >= floor after a debit; amounts exact to 18 digits;
--   whatever goes wrong, either everything of a call is written or nothing

local ACCOUNTS, HOLDS, RECENT, OLD, OUTBOX, HEAD = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local believed_position, believed_chain, chain, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local window, asked, through = ARGV[5], ARGV[6], ARGV[7]
local FIRST, WIDTH = 9, 4
local ARGV, generation, decided, decide = ARGV, nil, {}, {} -- a local is found faster than a global

-- @include amount text account checks window open debit credit hold reverse terms adjust repair gather

decide = {
    open = open, debit = debit, credit = credit, hold = hold, capture = capture, release = release, reverse = reverse,
    set_limits = set_limits, freeze = freeze, unfreeze = unfreeze, close = close, adjust = adjust, repair = repair,
}

-- 1. the head, the arguments and the keys
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation', 'turned', 'begun', 'horizon', 'forgotten')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why, more) return { word, head[1] or '', head[2] or '', why, more } end
for i = 1, 7 do
    if not head[i] then return stop('OUT_OF_SYNC', 'head') end
end
if head[1] ~= believed_position or head[2] ~= believed_chain then return stop('OUT_OF_SYNC', 'head') end
generation = head[3]
if (#ARGV - FIRST + 1) % WIDTH ~= 0 then return redis.error_reply('INVALID_ARGUMENT number of arguments') end
if not string.find(now .. ' ' .. window .. ' ' .. asked, '^%d+ %d+ %d+$') or #chain ~= 40 or string.find(chain, '[^0-9a-f]') then return redis.error_reply('INVALID_ARGUMENT clock or chain') end
local count, call, why = gather()
if why then return redis.error_reply('INVALID_ARGUMENT ' .. why) end
if may_be_forgotten(asked, head[6], head[7]) and not looked_up(through, head[7]) then return stop('TOO_OLD', head[6], head[7]) end
local accounts, recent, old, missing, corrupt = read(call)
if missing then return stop('OUT_OF_SYNC', missing) end
if corrupt then return stop('CORRUPT', corrupt) end

-- 2. decide, in memory
local position, base, base_text = tonumber(believed_position), nil, nil -- the position's text, all but its last two digits
local applied, rejected = ' ' .. now .. ' applied ', ' ' .. now .. ' '
local changed, current, known, skipped, records, fresh = {}, nil, {}, {}, {}, 0
local outcomes = { RECENT, '', chain }
for number = 1, count do
    local i = FIRST + (number - 1) * WIDTH
    local id, name, fingerprint, ask = ARGV[i], ARGV[i + 1], ARGV[i + 2], asks[ARGV[i + 3]]
    local outcome = decided[id] or recent[number + 1] or old[number + 1]
    if outcome then
        local word = string.sub(outcome, 1, 16) == fingerprint and ' remembered ' or ' reused '
        known[#known + 1], skipped[#skipped + 1] = number .. word .. string.sub(outcome, 17), number
    else
        local a, word, delta, after, booking = accounts[name], ask.refusal, nil, nil, nil
        if not word and (ask.conditional or not a or a.unit ~= ask.unit) then word = unmet(ask, a) end
        if not word then word, delta, after, booking = ask.decide(a, ask, id, fingerprint, name) end
        position = position + 1
        local last = position % 100
        if base ~= position - last then base, base_text = position - last, position > 99 and string.format('%d', (position - last) / 100) or '' end
        last = base == 0 and plain[last] or two[last]
        if after then
            if after ~= current then accounts[name], changed[name], current = after, true, after end
            local b1, b2, b3 = balance_text(after)
            local s1, s2 = sequence_text(after)
            outcome = fingerprint .. base_text .. last .. applied .. delta .. ' ' .. b1 .. b2 .. b3 .. after.held_text .. s1 .. s2 .. after.tail
            if booking then outcome = outcome .. booking end
        else
            outcome = fingerprint .. base_text .. last .. rejected .. word .. ' 0 ' .. (a and account_record(a) or '-')
        end
        fresh = fresh + 1
        decided[id], records[fresh], outcomes[2 + 2 * fresh], outcomes[3 + 2 * fresh] = outcome, outcome, id, outcome
    end
end
local answer = { 'DECIDED', string.format('%d', position), fresh > 0 and chain or believed_chain, table.concat(known, '\n'), records }
if fresh == 0 then return answer end

-- 3. write: the outbox first, the one write that can still refuse
local entry = redis.pcall('XADD', OUTBOX, 'NOMKSTREAM', string.format('%d-%d', position, tonumber(string.sub(chain, 1, 12), 16)),
    'before', believed_position .. ' ' .. believed_chain, 'now', now, 'known', table.concat(skipped, ' '), 'bodies', ARGV[8])
if not entry or entry.err then return stop('OUT_OF_SYNC', entry and entry.err or 'outbox') end
write_totals(turn(believed_position .. ' ' .. believed_chain, now, head[4], head[5]))
write_accounts(accounts, changed, chain)
write_holds(chain)
redis.call('HSET', unpack(outcomes))
redis.call('HSET', OLD, '', chain)
redis.call('HSET', HEAD, 'position', answer[2], 'chain', chain)
return answer
