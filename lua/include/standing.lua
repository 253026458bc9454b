-- What an account looks like to the commands of one call. Held, limits, unit and status seldom change, so what follows from them is worked
-- out once: the least balance that a debit may leave (held + floor), what refuses debits and credits, and their texts.
local REFUSES_DEBIT = { frozen_debit = 'ACCOUNT_FROZEN', frozen = 'ACCOUNT_FROZEN', closed = 'ACCOUNT_CLOSED' }
local REFUSES_CREDIT = { frozen_credit = 'ACCOUNT_FROZEN', frozen = 'ACCOUNT_FROZEN', closed = 'ACCOUNT_CLOSED' }

local function standing(a)
    a.least_high, a.least_low = plus(a.held_high, a.held_low, a.floor_high, a.floor_low)
    a.no_debit, a.no_credit = REFUSES_DEBIT[a.status], REFUSES_CREDIT[a.status]
    a.held_text = ' ' .. digits(a.held_high, a.held_low) .. ' '
    a.tail = ' ' .. limits_text(a) .. ' ' .. a.unit .. ' ' .. a.status
    a.counter, a.upper, a.record = {}, nil, nil
    return a
end

-- One more change of the account, of which only balance and sequence are new.
local function moved(a, high, low)
    a.balance_high, a.balance_low = high, low
    a.sequence, a.record = a.sequence + 1, nil
    return a
end

-- One more change of the account, of anything.
local function renewed(a)
    a.sequence = a.sequence + 1
    return standing(a)
end

-- The balance's text in three pieces: the first, which all numbers share that differ in their last four digits, is kept.
local function balance_text(a)
    local sign, high, low = magnitude(a.balance_high, a.balance_low)
    local last = low % 10000
    if high == 0 and low == last then return sign, '', string.format('%d', last) end
    if a.upper ~= low - last or a.upper_high ~= high or a.upper_sign ~= sign then
        a.upper, a.upper_high, a.upper_sign = low - last, high, sign
        a.upper_text = sign .. string.format(high == 0 and '%s%d' or '%d%05d', high == 0 and '' or high, a.upper / 10000)
    end
    local cents = last % 100
    return a.upper_text, two[(last - cents) / 100], two[cents]
end

-- The end of an outcome's record: the account as it stands. One string for a change; a rejection shows the same one as the one before.
local function unchanged(a)
    if not a.record then
        local b1, b2, b3 = balance_text(a)
        local s1, s2 = counted(a.counter, a.sequence)
        a.record = b1 .. b2 .. b3 .. a.held_text .. s1 .. s2 .. a.tail
    end
    return a.record
end
