-- open: terms = "floor[:ceiling]", the floor 0 or negative.
local function open(a, ask)
    if a then return nil, 'ACCOUNT_EXISTS' end
    local floor, ceiling = string.match(ask.terms, '^(%-?%d+):?(%d*)$')
    local limits = {}
    limits.floor_high, limits.floor_low = amount(floor)
    if ceiling ~= '' then limits.ceiling_high, limits.ceiling_low = amount(ceiling) end
    if not in_range(limits.floor_high, limits.floor_low) or (limits.ceiling_high and not in_range(limits.ceiling_high, limits.ceiling_low)) then return nil, 'LIMIT_EXCEEDED' end
    local terms = terms_of(limits, ask.kind.unit, 'active')
    return { balance_high = 0, balance_low = 0, sequence = 1, held = terms.nothing_held, terms = terms }, '0'
end
