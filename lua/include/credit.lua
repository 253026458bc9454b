-- credit: terms = the amount; the balance stays within 18 digits.
local function credit(a, given)
    local high, low = plus(a.balance_high, a.balance_low, amount(given))
    if not in_range(high, low) then return 'LIMIT_EXCEEDED' end
    a.balance_high, a.balance_low = high, low
    a.sequence = a.sequence + 1
    return 'applied', given, a
end
