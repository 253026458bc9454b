-- debit: terms = "amount[booking]"; needs amount <= available = balance - held - floor, which is to say: what it leaves is not below
-- held + floor. (minus and below are written out here and in credit: most commands are these two.)
local function debit(a, ask)
    local high, low, held = a.balance_high - ask.high, a.balance_low - ask.low, a.held
    if low < 0 then high, low = high - 1, low + BASE end
    local least_high = held.least_high
    if high < least_high or high == least_high and low < held.least_low then return nil, 'INSUFFICIENT_FUNDS' end
    a.balance_high, a.balance_low, a.sequence = high, low, a.sequence + 1
    return a, ask.delta, ask.booking
end
