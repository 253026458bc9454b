-- What a call is given, what it reads before it decides, and writes after it. Field '' of each hash carries the chain that it was last written at.

-- Verbs that concern something besides the account.
local CONCERNS = { hold = 'a new hold', capture = 'a hold', release = 'a hold', reverse = 'a command' }

-- The holds and the commands that commands name. Or what is wrong with one.
local function gather_concerns()
    local named, reversed, at, number, asked_for, _ = { '' }, {}, 1, nil, nil, nil
    for i = FIRST, last_id do
        number, asked_for, _, at = struct.unpack(ROW, rows, at)
        local id, name, ask = ARGV[i], account_name(number), asks[asked_for]
        local concerns = ask and CONCERNS[ask.kind.verb]
        if concerns == 'a new hold' then
            if not name or string.find(id, '[\t\n]') or string.find(name, '[\t\n]') then return nil, nil, 'id or account' end -- they are words of records
            named[#named + 1] = id
        elseif concerns == 'a hold' then
            named[#named + 1] = ask.hold
        elseif concerns == 'a command' then
            reversed[#reversed + 1] = string.match(ask.terms, '^[^\t]+')
        end
    end
    return named, reversed
end

-- Finds ids, accounts and asks among the arguments. The holds and the commands that they name; or what is wrong.
local function gather()
    last_id = FIRST - 1 + #rows / ROW_BYTES
    last_account = last_id + (tonumber(accounts_given) or 0)
    if last_id % 1 ~= 0 or not string.find(accounts_given, '^%d+$') or last_account > #ARGV then return nil, nil, 'number of arguments' end
    local seen, concerned = {}, false
    for i = last_id + 1, last_account do
        if ARGV[i] == '' or seen[ARGV[i]] then return nil, nil, 'account ' .. ARGV[i] end
        seen[ARGV[i]] = true
    end
    for i = last_account + 1, #ARGV do
        local ask, why = understand(ARGV[i])
        if not ask then return nil, nil, why end
        asks[i - last_account], concerned = ask, concerned or CONCERNS[ask.kind.verb]
    end
    if concerned then return gather_concerns() end
    return { '' }, {}
end

-- Reads the accounts by their numbers, with their records. The outcomes by the number of the command + 1, of both buckets; or the key that does not
-- carry the head; or what cannot be read.
local function read(named, reversed)
    local function torn(key, values)
        return (values.err and key .. ': ' .. values.err) or (values[1] ~= believed_chain and key)
    end
    records = redis.pcall('HMGET', ACCOUNTS, '', unpack(ARGV, last_id + 1, last_account))
    local open, recent, old = redis.pcall('HMGET', HOLDS, unpack(named)), redis.pcall('HMGET', RECENT, '', unpack(ARGV, FIRST, last_id)), nil
    if redis.pcall('HLEN', OLD) == 1 then
        old = redis.pcall('HMGET', OLD, '') -- before the first turn it has nothing else
    else
        old = redis.pcall('HMGET', OLD, '', unpack(ARGV, FIRST, last_id))
    end
    local missing = torn('accounts', records) or torn('holds', open) or torn('recent outcomes', recent) or torn('old outcomes', old)
    if missing then return nil, nil, missing end
    for number = 1, last_account - last_id do
        local a = records[number + 1]
        if a then a = account(a) end
        if a == nil then return nil, nil, nil, 'account ' .. account_name(number) end
        accounts[number] = a
    end
    for at = 2, #named do
        holds[named[at]] = open[at] and hold_of(open[at])
        if open[at] and not holds[named[at]] then return nil, nil, nil, 'hold ' .. named[at] end
    end
    read_originals(reversed)
    return recent, old
end

-- An account that changed has another record than the one that was read. written: some that are made already.
local function write_accounts(chain)
    local states, last = { ACCOUNTS, '', chain }, 3
    for number = 1, last_account - last_id do
        local a = accounts[number]
        local record = written[number] or a and (a.recorded == a.sequence and a.record or new_record(a))
        if record and record ~= records[number + 1] then
            states[last + 1], states[last + 2], last = account_name(number), record, last + 2
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
