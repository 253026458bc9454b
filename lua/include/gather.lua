-- What a call is given, what it reads before it decides, and writes after it. Field '' of each hash carries the chain that it was last written at.

-- Verbs that concern something besides the account.
local CONCERNS = { hold = 'a new hold', capture = 'a hold', release = 'a hold', reverse = 'a command' }

-- The holds that are opened or named; and what is wrong with the arguments, if anything. What reverses learns by which hashes its original goes.
local function gather_concerns()
    local named, opening, hashed = { '' }, {}, command_count
    for number, ask in ipairs(asks) do
        local concerns = CONCERNS[ask.kind.verb]
        if concerns == 'a command' then
            ask.originals, hashed = { ids[hashed + 1], ids[hashed + 2] }, hashed + 2
        elseif concerns then
            named[#named + 1], opening[number] = ask.hold, concerns == 'a new hold'
        end
    end
    for at = 1, #rows, ROW_BYTES do
        local number, asked_for = struct.unpack(ROW, rows, at)
        local name = account_name(number % ALONE) or '\t'
        if opening[asked_for] and string.find(name, '[\t\n]') then return nil, 'account of a hold' end -- it is a word of the hold's record
    end
    return named, hashed ~= #ids and 'number of ids'
end

-- Finds ids, accounts and asks among the arguments. The holds that they concern, and what is wrong, if anything.
local function gather()
    local hashed = #hashes / HASH_BYTES
    last_account = FIRST - 1 + (tonumber(accounts_given) or 0)
    if command_count % 1 ~= 0 or not string.find(accounts_given, '^%d+$') or last_account > #ARGV then return nil, 'number of arguments' end
    if hashed % 1 ~= 0 or hashed < command_count then return nil, 'number of ids' end
    ids = { struct.unpack(string.rep(HASH, hashed), hashes) }
    ids[hashed + 1] = nil -- where it ended
    local seen, concerned = {}, false
    for i = FIRST, last_account do
        local name = ARGV[i]
        if name == '' or seen[name] then return nil, 'account ' .. name end
        seen[name] = true
    end
    for i = last_account + 1, #ARGV do
        local ask, why = understand(ARGV[i])
        if not ask then return nil, why end
        asks[i - last_account], concerned = ask, concerned or CONCERNS[ask.kind.verb]
    end
    if concerned then return gather_concerns() end
    return { '' }, hashed ~= command_count and 'number of ids'
end

-- Reads the records of the accounts by their number + 1. The outcomes by the number of the id + 1, of both buckets; or the key that does not carry the
-- head; or what cannot be read.
local function read(named)
    local function torn(key, values)
        return (values.err and key .. ': ' .. values.err) or (values[1] ~= believed_chain and key)
    end
    records = redis.pcall('HMGET', ACCOUNTS, '', unpack(ARGV, FIRST, last_account))
    local open, recent, old = redis.pcall('HMGET', HOLDS, unpack(named)), redis.pcall('HMGET', RECENT, '', unpack(ids)), nil
    if redis.pcall('HLEN', OLD) == 1 then
        old = redis.pcall('HMGET', OLD, '') -- before the first turn it has nothing else
    else
        old = redis.pcall('HMGET', OLD, '', unpack(ids))
    end
    local missing = torn('accounts', records) or torn('holds', open) or torn('recent outcomes', recent) or torn('old outcomes', old)
    if missing then return nil, nil, missing end
    records[1] = nil -- no account's
    for at = 2, #named do
        holds[named[at]] = open[at] and hold_of(open[at])
        if open[at] and not holds[named[at]] then return nil, nil, nil, 'hold ' .. named[at] end
    end
    read_originals(recent, old)
    return recent, old
end

-- The account by its number, made of its record; false where there is none, nil where it cannot be read.
local function take_apart(number)
    local record = records[number + 1]
    local a = record and account(record)
    accounts[number], taken[#taken + 1] = a, number
    return a
end

local function unreadable(number) return stop('CORRUPT', 'account ' .. account_name(number)) end

-- Those taken apart that changed have another record than before. An account that was decided on its record before it was taken apart is in the list
-- twice: of HSET's fields the later one counts.
local function write_accounts()
    for i = 1, #taken do
        local number = taken[i]
        local a = accounts[number]
        local record = a and account_record(a)
        if record and record ~= records[number + 1] then
            states[changed + 1], states[changed + 2], changed = account_name(number), record, changed + 2
        end
    end
    redis.call('HSET', unpack(states))
end

local function write_holds(chain)
    local open, gone = { HOLDS, '', chain }, { HOLDS }
    for id in pairs(touched_holds) do
        if holds[id] then
            open[#open + 1], open[#open + 2] = id, hold_record(holds[id])
        else
            gone[#gone + 1] = id
        end
    end
    redis.call('HSET', unpack(open))
    if #gone > 1 then redis.call('HDEL', unpack(gone)) end
end

-- A total stands in the bucket of what it was reversed of, so both are forgotten at once. turned: what was recent is old by now, what was old is gone.
local function write_totals(turned)
    for id, o in pairs(originals) do
        local to_old = turned and o.bucket == RECENT or not turned and o.bucket == OLD
        if o.touched and to_old then
            redis.call('HSET', OLD, total_field(id), o.total)
        elseif o.touched and not (turned and o.bucket == OLD) then
            redis.call('HSET', RECENT, total_field(id), o.total)
        end
    end
end
