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
    return amount_text(h.high, h.low) .. '\t' .. h.expires .. '\t' .. h.counter .. '\t' .. h.account
end

-- What an outcome says of a hold.
local function hold_text(id, h)
    return '\thold\t' .. id .. '\t' .. amount_text(h.high, h.low) .. '\t' .. h.expires .. '\t' .. h.counter
end

local function expired(expires) return expires ~= '-' and tonumber(expires) <= tonumber(now) end

-- hold: terms = "its id \t amount \t expires ms or - \t counter account or nothing"; needs amount <= available, like a debit, and moves nothing.
local function hold(a, ask, _, number)
    local id = ask.hold
    if holds[id] then return nil, 'COMMAND_ID_REUSED' end -- its outcome is forgotten, the hold is not: what is held must not be booked over
    if expired(ask.expires) then return nil, 'HOLD_EXPIRED' end
    local high, low = ask.high, ask.low
    local left_high, left_low = minus(a.balance_high, a.balance_low, high, low)
    if below(left_high, left_low, a.held.least_high, a.held.least_low) then return nil, 'INSUFFICIENT_FUNDS' end
    local held_high, held_low = plus(a.held.high, a.held.low, high, low)
    if not in_range(held_high, held_low) then return nil, 'LIMIT_EXCEEDED' end
    holds[id], touched_holds[id] = { high = high, low = low, expires = ask.expires, counter = ask.counter, account = account_name(number) }, true
    return holding(a, held_high, held_low), '0', hold_text(id, holds[id])
end

-- The hold of this account that is asked for, and how much of it, or the word that refuses it.
local function part_of_hold(number, ask)
    local h = holds[ask.hold]
    if not h or h.account ~= account_name(number) then return nil, 'HOLD_UNKNOWN' end
    local high, low = h.high, h.low
    if ask.high then high, low = ask.high, ask.low end
    if below(h.high, h.low, high, low) then return nil, 'HOLD_EXCEEDED' end
    return h, high, low
end

-- Takes it off the hold, and off what the account holds back.
local function unhold(a, id, h, high, low)
    h.high, h.low = minus(h.high, h.low, high, low)
    holds[id], touched_holds[id] = (h.high > 0 or h.low > 0) and h, true
    return holding(a, minus(a.held.high, a.held.low, high, low)), hold_text(id, h)
end

-- capture: terms = "hold id \t amount or - [booking]"; a debit of what was set aside.
local function capture(a, ask, _, number)
    local booking, h, high, low = ask.booking, part_of_hold(number, ask)
    if not h then return nil, high end
    if expired(h.expires) then return nil, 'HOLD_EXPIRED' end
    local balance_high, balance_low = minus(a.balance_high, a.balance_low, high, low)
    if not in_range(balance_high, balance_low) then return nil, 'LIMIT_EXCEEDED' end
    if booking == '' and h.counter ~= '' then booking = '\tto\t' .. h.counter end
    a.balance_high, a.balance_low = balance_high, balance_low
    local after, text = unhold(a, ask.hold, h, high, low)
    return after, '-' .. amount_text(high, low), text .. booking
end

-- release: terms = "hold id \t amount or -"; gives back what was set aside.
local function release(a, ask, _, number)
    local h, high, low = part_of_hold(number, ask)
    if not h then return nil, high end
    local after, text = unhold(a, ask.hold, h, high, low)
    return after, '0', text
end
