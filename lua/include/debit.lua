-- debit: terms = "amount[booking]"; needs amount <= available = balance - held - floor, which is to say: what it leaves is not below
-- held + floor. (minus and below are written out here and in credit: most commands are these two.)
local function debit(a, ask)
    if a.no_debit then return a.no_debit end
    local high, low, least_high = a.balance_high - ask.high, a.balance_low - ask.low, a.least_high
    if low < 0 then high, low = high - 1, low + BASE end
    if high < least_high or high == least_high and low < a.least_low then return 'INSUFFICIENT_FUNDS' end
    a.balance_high, a.balance_low, a.sequence, a.record = high, low, a.sequence + 1, nil
    return nil, ask.negative, a, ask.booking
end
