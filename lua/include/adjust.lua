-- adjust: terms = "signed amount[booking]"; books it whatever limits and status say, within 18 digits. Corrections that people decided on, and
-- money that comes back from a transfer: it has to be somewhere.
local function adjust(a, ask)
    local delta, booking = string.match(ask.terms, '^(%-?%d+)(.*)$')
    local high, low = amount(delta)
    if not in_range(high, low) then return nil, 'LIMIT_EXCEEDED' end
    high, low = plus(a.balance_high, a.balance_low, high, low)
    if not in_range(high, low) then return nil, 'LIMIT_EXCEEDED' end
    return moved(a, high, low), delta, booking
end
