-- Open holds that this call names: id -> { account, high, low, expires, counter }; false where there is none (any more).
-- A hold's record in the holds hash is "remaining \t expires ms or - \t counter account or nothing \t account".
local holds, touched_holds = {}, {}

local function hold_of(record)
    local remaining, expires, counter, name = string.match(record, '^([1-9]%d*)\t([%d-]+)\t([^\t]*)\t([^\t]+)$')
    if not remaining or #remaining > 18 or #expires > 15 then return nil end
    if expires ~= '-' and expires ~= '0' and not string.find(expires, '^[1-9]%d*$') then return nil end
    local high, low = amount(remaining)
    return { high = high, low = low, expires = expires, counter = counter, account = name }
end

local function hold_record(h)
    return digits(h.high, h.low) .. '\t' .. h.expires .. '\t' .. h.counter .. '\t' .. h.account
end

-- What an outcome says of a hold.
local function hold_text(id, h)
    return '\thold\t' .. id .. '\t' .. digits(h.high, h.low) .. '\t' .. h.expires .. '\t' .. h.counter
end

local function expired(expires) return expires ~= '-' and tonumber(expires) <= tonumber(now) end

-- hold: terms = "amount \t expires ms or - \t counter account or nothing"; needs amount <= available, like a debit, and moves nothing.
local function hold(a, ask, id)
    if a.no_debit then return a.no_debit end
    local given, expires, counter = string.match(ask.terms, '^(%d+)\t([^\t]+)\t([^\t]*)$')
    if holds[id] then return 'COMMAND_ID_REUSED' end -- its outcome is forgotten, the hold is not: what is held must not be booked over
    if expired(expires) then return 'HOLD_EXPIRED' end
    local high, low = amount(given)
    local left_high, left_low = minus(a.balance_high, a.balance_low, high, low)
    if below(left_high, left_low, a.least_high, a.least_low) then return 'INSUFFICIENT_FUNDS' end
    local held_high, held_low = plus(a.held_high, a.held_low, high, low)
    if not in_range(held_high, held_low) then return 'LIMIT_EXCEEDED' end
    a.held_high, a.held_low = held_high, held_low
    holds[id], touched_holds[id] = { high = high, low = low, expires = expires, counter = counter, account = a.name }, true
    return nil, '0', renewed(a), hold_text(id, holds[id])
end

-- The hold of this account that terms name, and how much of it ("-": all that is left), or the word that refuses it.
local function part_of_hold(a, id, given)
    local h = holds[id]
    if not h or h.account ~= a.name then return 'HOLD_UNKNOWN' end
    local high, low = h.high, h.low
    if given ~= '-' then high, low = amount(given) end
    if below(h.high, h.low, high, low) then return 'HOLD_EXCEEDED' end
    return nil, h, high, low
end

-- Takes it off the hold, and off what the account holds back.
local function unhold(a, id, h, high, low)
    h.high, h.low = minus(h.high, h.low, high, low)
    a.held_high, a.held_low = minus(a.held_high, a.held_low, high, low)
    holds[id], touched_holds[id] = (h.high > 0 or h.low > 0) and h, true
    return hold_text(id, h)
end

-- capture: terms = "hold id \t amount or - [booking]"; a debit of what was set aside.
local function capture(a, ask)
    if a.no_debit then return a.no_debit end
    local id, given, booking = string.match(ask.terms, '^([^\t]+)\t([^\t]+)(.*)$')
    local word, h, high, low = part_of_hold(a, id, given)
    if word then return word end
    if expired(h.expires) then return 'HOLD_EXPIRED' end
    local balance_high, balance_low = minus(a.balance_high, a.balance_low, high, low)
    if not in_range(balance_high, balance_low) then return 'LIMIT_EXCEEDED' end
    if booking == '' and h.counter ~= '' then booking = '\tto\t' .. h.counter end
    local text = unhold(a, id, h, high, low)
    a.balance_high, a.balance_low = balance_high, balance_low
    return nil, '-' .. digits(high, low), renewed(a), text .. booking
end

-- release: terms = "hold id \t amount or -"; gives back what was set aside.
local function release(a, ask)
    local id, given = string.match(ask.terms, '^([^\t]+)\t([^\t]+)$')
    local word, h, high, low = part_of_hold(a, id, given)
    if word then return word end
    local text = unhold(a, id, h, high, low)
    return nil, '0', renewed(a), text
end
