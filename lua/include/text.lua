-- Numbers as text, cheaply: formatting a number costs as much as deciding a command, and successive numbers share their first digits.

-- Two digits of a longer number.
local two = {
    [0] = '00', '01', '02', '03', '04', '05', '06', '07', '08', '09', '10', '11', '12', '13', '14', '15', '16', '17', '18', '19',
    '20', '21', '22', '23', '24', '25', '26', '27', '28', '29', '30', '31', '32', '33', '34', '35', '36', '37', '38', '39',
    '40', '41', '42', '43', '44', '45', '46', '47', '48', '49', '50', '51', '52', '53', '54', '55', '56', '57', '58', '59',
    '60', '61', '62', '63', '64', '65', '66', '67', '68', '69', '70', '71', '72', '73', '74', '75', '76', '77', '78', '79',
    '80', '81', '82', '83', '84', '85', '86', '87', '88', '89', '90', '91', '92', '93', '94', '95', '96', '97', '98', '99',
}

-- Any number; made when it is first needed.
local plain = setmetatable({}, { __index = function(t, n)
    t[n] = string.format('%d', n)
    return t[n]
end })

-- An amount, which often is a small one.
local function amount_text(high, low) return high == 0 and plain[low] or digits(high, low) end

-- A balance's text in three pieces. The first, the high limb's, is kept with the account, for successive balances share it; the one of a balance
-- below zero, the sign and its magnitude, under a number that is no limb.
local function balance_text(a)
    local sign, high, low = magnitude(a.balance_high, a.balance_low)
    if high == 0 then return sign, plain[low], '' end
    local limb, last = sign == '' and high or -high - 0.5, low % 100
    if a.limb ~= limb then a.limb, a.limb_text = limb, sign .. string.format('%d', high) end
    return a.limb_text, two[(low - last) / 100], two[last]
end

-- A sequence's text in two pieces: a hundred numbers share the first.
local function sequence_text(n)
    if n < 100 then return '', plain[n] end
    local last = n % 100
    return plain[(n - last) / 100], two[last]
end

local function new_record(a)
    local b1, b2, b3 = balance_text(a)
    local s1, s2 = sequence_text(a.sequence)
    return b1 .. b2 .. b3 .. a.held.text .. s1 .. s2 .. a.terms.text
end

-- The account's record. A rejection shows the same one as the one before.
local function account_record(a)
    if a.recorded ~= a.sequence then a.record, a.recorded = new_record(a), a.sequence end
    return a.record
end
