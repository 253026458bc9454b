-- open: terms = "floor[:ceiling]", the floor 0 or negative.
local function open(a, ask, _, _, name)
    if a then return 'ACCOUNT_EXISTS' end
    local floor, ceiling = string.match(ask.terms, '^(%-?%d+):?(%d*)$')
    local new = { name = name, balance_high = 0, balance_low = 0, held_high = 0, held_low = 0, sequence = 0, unit = ask.unit, status = 'active' }
    new.floor_high, new.floor_low = amount(floor)
    if ceiling ~= '' then new.ceiling_high, new.ceiling_low = amount(ceiling) end
    if not in_range(new.floor_high, new.floor_low) or (new.ceiling_high and not in_range(new.ceiling_high, new.ceiling_low)) then return 'LIMIT_EXCEEDED' end
    return nil, '0', renewed(new)
end
