-- debit: terms = "amount[booking]"; needs amount <= available = balance - held - floor, which is to say: what it leaves is not below
-- held + floor.
local function debit(a, terms)
    if a.no_debit then return a.no_debit end
    local known = amounts[terms]
    local high, low = minus(a.balance_high, a.balance_low, known.high, known.low)
    if below(high, low, a.least_high, a.least_low) then return 'INSUFFICIENT_FUNDS' end
    return nil, known.negative, moved(a, high, low), known.booking
end
