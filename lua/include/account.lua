-- An account as its record in the accounts hash: "balance held sequence floor unit status".
local function account_record(a)
    return string.format('%s %s %d %s %s %s', digits(a.balance_high, a.balance_low), digits(a.held_high, a.held_low),
        a.sequence, digits(a.floor_high, a.floor_low), a.unit, a.status)
end

-- nil for a record that this ledger would not have written: more than 18 digits, leading zeros, a sequence beyond 15 digits.
local function account(record)
    local balance, held, sequence, floor, unit, status =
        string.match(record, '^(%-?%d+) (%-?%d+) (%d+) (%-?%d+) (%S+) (%S+)$')
    if not balance or #sequence > 15 then return nil end
    local a = { sequence = tonumber(sequence), unit = unit, status = status }
    a.balance_high, a.balance_low = amount(balance)
    a.held_high, a.held_low = amount(held)
    a.floor_high, a.floor_low = amount(floor)
    local exact = in_range(a.balance_high, a.balance_low) and in_range(a.held_high, a.held_low)
        and in_range(a.floor_high, a.floor_low)
    return exact and account_record(a) == record and a or nil
end
