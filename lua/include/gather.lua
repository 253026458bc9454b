-- What a call reads before it decides, and writes after it. Field '' of each hash carries the chain that it was last written at.

-- The number of commands and what they name: ids, accounts with their places, holds, commands to reverse. Or what is wrong with the arguments.
local function gather()
    local ids, names, place, held, reversed = { '' }, { '' }, {}, { '' }, {}
    local count, last = 0, nil
    for i = FIRST, #ARGV, WIDTH do
        local id, name, ask, why = ARGV[i], ARGV[i + 1], asks[ARGV[i + 3]], nil
        if not ask then ask, why = understand(ARGV[i + 3]) end
        if why or id == '' or name == '' or #ARGV[i + 2] ~= 16 then return nil, nil, (why or 'id or fingerprint') .. ' of command ' .. id end
        count = count + 1
        ids[count + 1] = id
        if name ~= last and not place[name] then
            names[#names + 1] = name
            place[name] = #names
        end
        last = name
        local concerns = ask.concerns
        if concerns == 'a new hold' then
            if string.find(id .. name, '[\t\n]') then return nil, nil, 'id or account' end -- they are words of records
            held[#held + 1] = id
        elseif concerns == 'a hold' then
            held[#held + 1] = string.match(ask.terms, '^[^\t]+')
        elseif concerns == 'a command' then
            reversed[#reversed + 1] = string.match(ask.terms, '^[^\t]+')
        end
    end
    return count, { ids = ids, names = names, place = place, holds = held, reversed = reversed }
end

-- The accounts by name and the outcomes by number + 1, of both buckets. Or the key that does not carry the head; or what cannot be read.
local function read(call)
    local function torn(key, values)
        return (values.err and key .. ': ' .. values.err) or (values[1] ~= believed_chain and key)
    end
    local records, open = redis.pcall('HMGET', ACCOUNTS, unpack(call.names)), redis.pcall('HMGET', HOLDS, unpack(call.holds))
    local recent, old = redis.pcall('HMGET', RECENT, unpack(call.ids)), redis.pcall('HMGET', OLD, unpack(call.ids))
    local missing = torn('accounts', records) or torn('holds', open) or torn('recent outcomes', recent) or torn('old outcomes', old)
    if missing then return nil, nil, nil, missing end
    local accounts = {}
    for name, at in pairs(call.place) do
        local a = records[at] and account(records[at], name)
        if records[at] and not a then return nil, nil, nil, nil, 'account ' .. name end
        accounts[name] = a or nil
    end
    for at = 2, #call.holds do
        holds[call.holds[at]] = open[at] and hold_of(open[at])
        if open[at] and not holds[call.holds[at]] then return nil, nil, nil, nil, 'hold ' .. call.holds[at] end
    end
    read_originals(call.reversed)
    return accounts, recent, old
end

local function write_accounts(accounts, changed, chain)
    local states = { ACCOUNTS, '', chain }
    for name in pairs(changed) do
        states[#states + 1], states[#states + 2] = name, account_record(accounts[name])
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
