#!lua
-- apply: decide commands of one shard in their order, and remember every outcome.
--
-- Steps
--   1. refuse unless the head is the one the caller believes in, the arguments are well-formed, and all keys carry the head
--   2. per command: a remembered id gets its outcome back; any other is decided in memory
--   3. only then write: outbox, turn of the buckets, accounts, holds, outcomes, head
-- KEYS
--   1 accounts   hash    account -> its record (include/account.lua); '' -> chain at the last write, as in 2 to 4
--   2 holds      hash    hold's command id -> "remaining \t expires ms or - \t counter account or nothing \t account"
--   3 recent     hash    hash of a command id (14 bytes) -> fingerprint (16 bytes) and outcome record; the hash and "\n" -> total reversed of it
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
--   9 rows       for each of at most 900 commands, big-endian: the numbers of its account and of what it asks for, from 1, two bytes each; the amount
--                of a debit or credit, else 0, as its last four digits in two bytes after the others in six; its fingerprint. 32768 is added to the
--                account's number where this is its only command in the call: that is how it costs least, and decides the same where it is not true
--   10 ids       for each command the hash of its id; then for each reversal that is asked for those of the command that it names, and of that one's
--                far end
--   11 accounts  how many accounts there are
--   then 1 per account:
--   1 account    each once
--   then the texts that say what is asked for (include/checks.lua)
-- Returns
--   {"DECIDED", position, chain, known, records}
--     known     commands with a remembered id: "<number in the call, from 1> <remembered, or reused: with another payload> <record>"
--     records   of the others, in order, each with its fingerprint before it (a list: Lua would hash one long text several times): the time of
--               decision (ms, 6 bytes, big-endian), "<position> <delta or REASON> <account record or ->", and what it booked (lua/record.go)
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
local rows, hashes, accounts_given = ARGV[9], ARGV[10], ARGV[11]
local FIRST, WIDTH = 12, 1
local ROW, ROW_BYTES, ALONE, HASH, HASH_BYTES = '>HHI6Hc16', 28, 32768, 'c14', 14
local ARGV, match, format, generation, decide = ARGV, string.match, string.format, nil, nil -- a local is found faster than a global
local command_count = #rows / ROW_BYTES
local last_account, ids, asks = nil, nil, {} -- the last one's place in ARGV; hashes of ids; what is asked for, by number
local records, accounts, taken = nil, {}, {} -- by number: what is known of accounts as records, and taken apart, false where there is none; the numbers of the latter
local states, changed = { ACCOUNTS, '', chain }, 3 -- the records to write, and where their list ends
local decided = {} -- new outcomes by hash of the id

local head = {} -- as it was read
local function stop(word, why, more) return { word, head[1] or '', head[2] or '', why, more } end
local function invalid(why) return redis.error_reply('INVALID_ARGUMENT ' .. why) end

-- @include amount text account checks window open hold reverse terms adjust repair verbs gather decide

-- 1. the head, the arguments and the keys
head = redis.pcall('HMGET', HEAD, 'position', 'chain', 'generation', 'turned', 'begun', 'horizon', 'forgotten')
if head.err then return stop('OUT_OF_SYNC', head.err) end
for i = 1, 7 do
    if not head[i] then return stop('OUT_OF_SYNC', 'head') end
end
if head[1] ~= believed_position or head[2] ~= believed_chain then return stop('OUT_OF_SYNC', 'head') end
generation = head[3]
if not string.find(now .. ' ' .. window .. ' ' .. asked, '^%d+ %d+ %d+$') or #chain ~= 40 or string.find(chain, '[^0-9a-f]') then return invalid('clock or chain') end
local named, why = gather()
if why then return invalid(why) end
if may_be_forgotten(asked, head[6], head[7]) and not looked_up(through, head[7]) then return stop('TOO_OLD', head[6], head[7]) end
local recent, old, missing, corrupt = read(named)
if missing then return stop('OUT_OF_SYNC', missing) end
if corrupt then return stop('CORRUPT', corrupt) end

-- 2. decide, in memory
local known, skipped, fresh, outcomes, count = decide_all(recent, old)
if not known then return skipped end
local position = believed_position + count
local answer = { 'DECIDED', format('%d', position), count > 0 and chain or believed_chain, known, fresh }
if count == 0 then return answer end

-- 3. write: the outbox first, the one write that can still refuse
local entry = redis.pcall('XADD', OUTBOX, 'NOMKSTREAM', format('%d-%d', position, tonumber(string.sub(chain, 1, 12), 16)),
    'before', believed_position .. ' ' .. believed_chain, 'now', now, 'known', table.concat(skipped, ' '), 'bodies', ARGV[8])
if not entry or entry.err then return stop('OUT_OF_SYNC', entry and entry.err or 'outbox') end
write_totals(turn(believed_position .. ' ' .. believed_chain, now, head[4], head[5]))
write_accounts()
write_holds(chain)
redis.call('HSET', unpack(outcomes))
redis.call('HSET', OLD, '', chain)
redis.call('HSET', HEAD, 'position', answer[2], 'chain', chain)
return answer
