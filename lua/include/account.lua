-- An account as its record in the accounts hash: "balance held sequence floor unit status", the floor with ":ceiling" behind it where there is one.
local function limits_text(a)
    local floor = digits(a.floor_high, a.floor_low)
    return a.ceiling_high and floor .. ':' .. digits(a.ceiling_high, a.ceiling_low) or floor
end

local function account_record(a)
    return string.format('%s %s %d %s %s %s', digits(a.balance_high, a.balance_low), digits(a.held_high, a.held_low),
        a.sequence, limits_text(a), a.unit, a.status)
end

-- nil for a record that this ledger would not have written: more than 18 digits, leading zeros, a sequence beyond 15 digits, an unknown status.
local STATUS = { active = true, frozen_debit = true, frozen_credit = true, frozen = true, closed = true }
local function account(record)
    local balance, held, sequence, floor, ceiling, unit, status =
        string.match(record, '^(%-?%d+) (%-?%d+) (%d+) (%-?%d+):?(%d*) (%S+) (%S+)$')
    if not balance or #sequence > 15 or not STATUS[status] then return nil end
    local a = { sequence = tonumber(sequence), unit = unit, status = status }
    a.balance_high, a.balance_low = amount(balance)
    a.held_high, a.held_low = amount(held)
    a.floor_high, a.floor_low = amount(floor)
    if ceiling ~= '' then a.ceiling_high, a.ceiling_low = amount(ceiling) end
    local exact = in_range(a.balance_high, a.balance_low) and in_range(a.held_high, a.held_low)
        and in_range(a.floor_high, a.floor_low) and (not a.ceiling_high or in_range(a.ceiling_high, a.ceiling_low))
    return exact and account_record(a) == record and a or nil
end
