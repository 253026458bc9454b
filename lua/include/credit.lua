-- What a credit must not do: pass the ceiling or 18 digits. nil = it does not.
local function over(a, high, low)
    local terms = a.terms
    if high >= TOP or terms.ceiling_high and below(terms.ceiling_high, terms.ceiling_low, high, low) then return 'LIMIT_EXCEEDED' end
end

-- credit: terms = "amount[booking]".
local function credit(a, ask)
    local high, low = a.balance_high + ask.high, a.balance_low + ask.low
    if low >= BASE then high, low = high + 1, low - BASE end
    local word = over(a, high, low)
    if word then return nil, word end
    a.balance_high, a.balance_low, a.sequence = high, low, a.sequence + 1
    return a, ask.delta, ask.booking
end
