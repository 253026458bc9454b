-- debit: terms = the amount; needs amount <= available = balance - held - floor.
local function debit(a, taken)
    local high, low = amount(taken)
    local available_high, available_low = minus(a.balance_high, a.balance_low, a.held_high, a.held_low)
    available_high, available_low = minus(available_high, available_low, a.floor_high, a.floor_low)
    if below(available_high, available_low, high, low) then return 'INSUFFICIENT_FUNDS' end
    a.balance_high, a.balance_low = minus(a.balance_high, a.balance_low, high, low)
    a.sequence = a.sequence + 1
    return 'applied', '-' .. taken, a
end
