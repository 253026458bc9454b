-- What a credit must not do: reach an account that takes none, or pass the ceiling or 18 digits. nil = it may.
local function over(a, high, low)
    if a.no_credit then return a.no_credit end
    if not in_range(high, low) then return 'LIMIT_EXCEEDED' end
    if a.ceiling_high and below(a.ceiling_high, a.ceiling_low, high, low) then return 'LIMIT_EXCEEDED' end
end

-- credit: terms = "amount[booking]".
local function credit(a, ask)
    local high, low = a.balance_high + ask.high, a.balance_low + ask.low
    if low >= BASE then high, low = high + 1, low - BASE end
    local word = over(a, high, low)
    if word then return word end
    a.balance_high, a.balance_low, a.sequence, a.record = high, low, a.sequence + 1, nil
    return nil, ask.amount, a, ask.booking
end
