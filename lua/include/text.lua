-- Numbers as text, cheaply: formatting a number costs as much as deciding a command, and successive numbers share their first digits.

-- '00' to '99', and '0' to '9999' as they are; each made when it is first needed.
local function made(format)
    return setmetatable({}, { __index = function(t, n)
        t[n] = string.format(format, n)
        return t[n]
    end })
end
local two, plain = made('%02d'), made('%d')

-- The balance's text in three pieces: the first, which all numbers share that differ in their last four digits, is kept.
local function balance_text(a)
    local sign, high, low = '', a.balance_high, a.balance_low
    if high < 0 then sign, high, low = magnitude(high, low) end
    if high == 0 and low < 10000 then return sign, plain[low], '' end
    local last = low % 10000
    local upper = sign == '' and low - last or last - low - 1 -- not the same for a number and its negative
    if a.upper ~= upper or a.upper_high ~= high then
        a.upper, a.upper_high = upper, high
        a.upper_text = high == 0 and string.format('%d', (low - last) / 10000) or string.format('%d%05d', high, (low - last) / 10000)
        if sign ~= '' then a.upper_text = sign .. a.upper_text end
    end
    local cents = last % 100
    return a.upper_text, two[(last - cents) / 100], two[cents]
end

-- A sequence's text in two pieces: the first, which a hundred numbers share, is kept.
local function sequence_text(a)
    local n = a.sequence
    if n < 100 then return '', plain[n] end
    local last = n % 100
    if a.base ~= n - last then a.base, a.base_text = n - last, string.format('%d', (n - last) / 100) end
    return a.base_text, two[last]
end

-- The first pieces of balance and sequence, as the account's record has them.
local function keep_texts(a, balance, sequence)
    local sign, high, low = '', a.balance_high, a.balance_low
    if high < 0 then sign, high, low = magnitude(high, low) end
    if high > 0 or low > 9999 then
        local last = low % 10000
        a.upper, a.upper_high, a.upper_text = sign == '' and low - last or last - low - 1, high, string.sub(balance, 1, -5)
    end
    local n = a.sequence
    if n > 99 then a.base, a.base_text = n - n % 100, string.sub(sequence, 1, -3) end
end

-- The account's record. One string per change: a rejection shows the same one as the one before.
local function account_record(a)
    if not a.record then
        local b1, b2, b3 = balance_text(a)
        local s1, s2 = sequence_text(a)
        a.record = b1 .. b2 .. b3 .. a.held_text .. s1 .. s2 .. a.tail
    end
    return a.record
end
