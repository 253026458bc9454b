-- open: terms = the floor, 0 or negative.
local function open(a, floor, unit)
    if a then return 'ACCOUNT_EXISTS' end
    local floor_high, floor_low = amount(floor)
    return nil, '0', standing({
        balance_high = 0, balance_low = 0, held_high = 0, held_low = 0, floor_high = floor_high, floor_low = floor_low,
        sequence = 1, unit = unit, status = 'active',
    })
end
