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
--   9 rows       for each command the numbers of its account and of what it asks for, from 1, two bytes each, big-endian, and its fingerprint
--   10 accounts  how many accounts these are
--   then 1 per command, at most 900 commands (Lua unpacks at most about 8,000 values):
--   1 id
--   then the accounts, each once, and the texts that say what is asked for (include/checks.lua)
-- Returns
--   {"DECIDED", position, chain, known, records}
--     known     commands with a remembered id, one a line: "<number in the call, from 1> <remembered, or reused: with another payload> <record>"
--     records   of the others, in order, each with its fingerprint before it (a list: Lua would hash one long text several times):
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
local rows, accounts_given = ARGV[9], ARGV[10]
local FIRST, WIDTH = 11, 1
local ROW, ROW_BYTES = '>HHc16', 20
local ARGV, generation, decide = ARGV, nil, nil -- a local is found faster than a global
local last_id, last_account, asks = nil, nil, {} -- the last places in ARGV; what is asked for, by number
local accounts, records, written = {}, nil, {} -- by number: accounts, false where there is none; their records as they were read, and as they will be
local decided = {} -- new outcomes by id

-- @include amount text account checks window open debit credit hold reverse terms adjust repair verbs gather

-- 1. the head, the arguments and the keys
local head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation', 'turned', 'begun', 'horizon', 'forgotten')
if head.err then return { 'OUT_OF_SYNC', '', '', head.err } end
local function stop(word, why, more) return { word, head[1] or '', head[2] or '', why, more } end
for i = 1, 7 do
    if not head[i] then return stop('OUT_OF_SYNC', 'head') end
end
if head[1] ~= believed_position or head[2] ~= believed_chain then return stop('OUT_OF_SYNC', 'head') end
generation = head[3]
local function invalid(why) return redis.error_reply('INVALID_ARGUMENT ' .. why) end
if not string.find(now .. ' ' .. window .. ' ' .. asked, '^%d+ %d+ %d+$') or #chain ~= 40 or string.find(chain, '[^0-9a-f]') then return invalid('clock or chain') end
local named, reversed, why = gather()
if why then return invalid(why) end
if may_be_forgotten(asked, head[6], head[7]) and not looked_up(through, head[7]) then return stop('TOO_OLD', head[6], head[7]) end
local recent, old, missing, corrupt = read(named, reversed)
if missing then return stop('OUT_OF_SYNC', missing) end
if corrupt then return stop('CORRUPT', corrupt) end

-- 2. decide, in memory
local applied, rejected, position = ' ' .. now .. ' applied ', ' ' .. now .. ' ', tonumber(believed_position)
local last, upper, pair = position % 100, '', plain -- the position's last two digits; the text of the others; and the texts for the last two
if position > 99 then upper, pair = string.format('%d', (position - last) / 100), two end
local known, skipped, fresh, count = {}, {}, {}, 0
local sparse = 2 * (last_account - last_id) > last_id - FIRST -- most accounts have one command: its record is the one to write, too
local outcomes = { RECENT, '', chain }
local row, place, number, asked_for, fingerprint = struct.unpack, 1, nil, nil, nil
for i = FIRST, last_id do
    number, asked_for, fingerprint, place = row(ROW, rows, place)
    local id, ask, a, at = ARGV[i], asks[asked_for], accounts[number], i - FIRST + 2 -- the marker's place is 1
    local outcome = decided[id] or recent[at] or old[at]
    if outcome then
        if id == '' then return invalid('id of command ' .. at - 1) end -- the marker is no outcome
        local word = string.sub(outcome, 1, 16) == fingerprint and ' remembered ' or ' reused '
        known[#known + 1], skipped[#skipped + 1] = at - 1 .. word .. string.sub(outcome, 17), at - 1
    else
        if a == nil or not ask then return invalid('row of command ' .. at - 1) end
        local after, said, booking = nil, nil, nil
        if not a or a.terms ~= ask.fits then said = unmet(ask, a) end
        if not said then after, said, booking = ask.decide(a, ask, id, fingerprint, number) end
        count, last = count + 1, last + 1
        if last == 100 then last, upper, pair = 0, string.format('%d', (position + count) / 100), two end
        if after then
            if after ~= a then accounts[number] = after end
            local low, n, b1, b2, b3, s1, s2 = after.balance_low, after.sequence, nil, nil, nil, '', nil
            if after.limb == after.balance_high then -- most do; calling a function costs as much as deciding
                b3 = low % 100
                b1, b2, b3 = after.limb_text, two[(low - b3) / 100], two[b3]
            else
                b1, b2, b3 = balance_text(after)
            end
            if n < 100 then
                s2 = plain[n]
            else
                s2 = n % 100
                s1, s2 = plain[(n - s2) / 100], two[s2]
            end
            if sparse then
                local record = b1 .. b2 .. b3 .. after.held.text .. s1 .. s2 .. after.terms.text
                outcome, written[number] = fingerprint .. upper .. pair[last] .. applied .. said .. ' ' .. record, record
            else
                outcome = fingerprint .. upper .. pair[last] .. applied .. said .. ' ' .. b1 .. b2 .. b3 .. after.held.text .. s1 .. s2 .. after.terms.text
            end
            if booking then outcome = outcome .. booking end
        else
            outcome = fingerprint .. upper .. pair[last] .. rejected .. said .. ' 0 ' .. (a and account_record(a) or '-')
        end
        local o = count + count + 2
        decided[id], fresh[count], outcomes[o], outcomes[o + 1] = outcome, outcome, id, outcome
    end
end
position = position + count
local answer = { 'DECIDED', string.format('%d', position), count > 0 and chain or believed_chain, table.concat(known, '\n'), fresh }
if count == 0 then return answer end

-- 3. write: the outbox first, the one write that can still refuse
local entry = redis.pcall('XADD', OUTBOX, 'NOMKSTREAM', string.format('%d-%d', position, tonumber(string.sub(chain, 1, 12), 16)),
    'before', believed_position .. ' ' .. believed_chain, 'now', now, 'known', table.concat(skipped, ' '), 'bodies', ARGV[8])
if not entry or entry.err then return stop('OUT_OF_SYNC', entry and entry.err or 'outbox') end
write_totals(turn(believed_position .. ' ' .. believed_chain, now, head[4], head[5]))
write_accounts(chain)
write_holds(chain)
redis.call('HSET', unpack(outcomes))
redis.call('HSET', OLD, '', chain)
redis.call('HSET', HEAD, 'position', answer[2], 'chain', chain)
return answer
