-- debit: terms = the amount; needs amount <= available = balance - held - floor, which is to say: what it leaves is not below held + floor.
local function debit(a, taken)
    local known = amounts[taken]
    local high, low = minus(a.balance_high, a.balance_low, known.high, known.low)
    if below(high, low, a.least_high, a.least_low) then return 'INSUFFICIENT_FUNDS' end
    a.balance_high, a.balance_low = high, low
    a.sequence, a.record = a.sequence + 1, nil
    return nil, known.negative, a
end
