-- An account as its record in the accounts hash: "balance held sequence floor unit status", the floor with ":ceiling" behind it where there is one.

-- What refuses debits and credits of an account, by its status.
local STATUS = {
    active = {}, closed = { debit = 'ACCOUNT_CLOSED', credit = 'ACCOUNT_CLOSED' },
    frozen = { debit = 'ACCOUNT_FROZEN', credit = 'ACCOUNT_FROZEN' },
    frozen_debit = { debit = 'ACCOUNT_FROZEN' }, frozen_credit = { credit = 'ACCOUNT_FROZEN' },
}

local function limits_text(a)
    local floor = digits(a.floor_high, a.floor_low)
    return a.ceiling_high and floor .. ':' .. digits(a.ceiling_high, a.ceiling_low) or floor
end

-- What follows from held, limits and status, which seldom change, is worked out once: the least balance that a debit may leave (held + floor),
-- what refuses debits and credits, and the texts around balance and sequence.
local function standing(a, held, tail)
    a.least_high, a.least_low = plus(a.held_high, a.held_low, a.floor_high, a.floor_low)
    a.no_debit, a.no_credit = STATUS[a.status].debit, STATUS[a.status].credit
    a.held_text, a.tail, a.record = ' ' .. held .. ' ', ' ' .. tail, nil
    return a
end

-- One more change of the account, of the balance alone.
local function moved(a, high, low)
    a.balance_high, a.balance_low, a.sequence, a.record = high, low, a.sequence + 1, nil
    return a
end

-- One more change of the account, of anything.
local function renewed(a)
    a.sequence = a.sequence + 1
    return standing(a, digits(a.held_high, a.held_low), limits_text(a) .. ' ' .. a.unit .. ' ' .. a.status)
end

-- An amount as this ledger writes it: at most 18 digits, no leading zero.
local function exact(text)
    return text == '0' or (#text < 19 or #text == 19 and string.byte(text) == 45) and string.find(text, '^%-?[1-9]')
end

-- nil for a record that this ledger would not have written.
local function account(record, name)
    local balance, held, sequence, tail, floor, colon, ceiling, unit, status =
        string.match(record, '^(%-?%d+) (%-?%d+) (%d+) ((%-?%d+)(:?)(%d*) ([^%s%z]+) (%S+))$')
    if not balance or not (exact(balance) and exact(held) and exact(floor)) or #sequence > 15 or string.find(sequence, '^0.') then return nil end
    if (colon == '') ~= (ceiling == '') or ceiling ~= '' and not exact(ceiling) or not STATUS[status] then return nil end
    local a = {
        name = name, balance_high = 0, balance_low = 0, held_high = 0, held_low = 0, floor_high = 0, floor_low = 0, least_high = 0, least_low = 0,
        sequence = tonumber(sequence), unit = unit, status = status, held_text = '', tail = '', upper = -1, upper_high = -1, upper_text = '', base = -1, base_text = '',
    }
    a.balance_high, a.balance_low = amount(balance)
    if held ~= '0' then a.held_high, a.held_low = amount(held) end
    if floor ~= '0' then a.floor_high, a.floor_low = amount(floor) end
    if ceiling ~= '' then a.ceiling_high, a.ceiling_low = amount(ceiling) end
    return standing(a, held, tail)
end
