-- credit: terms = the amount; the balance stays within 18 digits.
local function credit(a, given)
    local known = amounts[given]
    local high, low = plus(a.balance_high, a.balance_low, known.high, known.low)
    if not in_range(high, low) then return 'LIMIT_EXCEEDED' end
    a.balance_high, a.balance_low = high, low
    a.sequence, a.record = a.sequence + 1, nil
    return nil, given, a
end
