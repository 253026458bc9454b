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
local function standing(a, held_text, tail)
    a.least_high, a.least_low = plus(a.held_high, a.held_low, a.floor_high, a.floor_low)
    a.no_debit, a.no_credit = STATUS[a.status].debit, STATUS[a.status].credit
    a.held_text, a.tail, a.record = held_text, tail, nil
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
    return standing(a, ' ' .. digits(a.held_high, a.held_low) .. ' ', ' ' .. limits_text(a) .. ' ' .. a.unit .. ' ' .. a.status)
end

-- An amount as this ledger writes it: at most 18 digits, no leading zero. text is digits, and "-" before them perhaps.
local function exact(text)
    local first = string.byte(text)
    if first == 48 then return #text == 1 end
    if first == 45 then return #text < 20 and string.byte(text, 2) ~= 48 end
    return #text < 19
end

-- What a record says behind held and sequence: floor, ceiling, unit and status. Most accounts of a call share it, so it is read once.
local tails = {}
local function tail_of(text)
    local floor, colon, ceiling, unit, status = string.match(text, '^(%-?%d+)(:?)(%d*) ([^%s%z]+) (%S+)$')
    if not floor or not exact(floor) or (colon == '') ~= (ceiling == '') or ceiling ~= '' and not exact(ceiling) or not STATUS[status] then return nil end
    local tail = { unit = unit, status = status, text = ' ' .. text }
    tail.floor_high, tail.floor_low = amount(floor)
    if ceiling ~= '' then tail.ceiling_high, tail.ceiling_low = amount(ceiling) end
    tails[text] = tail
    return tail
end

-- nil for a record that this ledger would not have written.
local function account(record, name)
    local balance, held, sequence, text = string.match(record, '^(%-?%d+) (%-?%d+) (%d+) (.+)$')
    local tail = text and (tails[text] or tail_of(text))
    if not tail or not (exact(balance) and exact(held)) or #sequence > 15 or sequence ~= '0' and string.byte(sequence) == 48 then return nil end
    local balance_high, balance_low = amount(balance)
    local a = {
        name = name, balance_high = balance_high, balance_low = balance_low, held_high = 0, held_low = 0, sequence = tonumber(sequence),
        floor_high = tail.floor_high, floor_low = tail.floor_low, ceiling_high = tail.ceiling_high, ceiling_low = tail.ceiling_low,
        unit = tail.unit, status = tail.status, upper = -1, upper_high = -1, upper_text = '', base = -1, base_text = '',
    }
    if held ~= '0' then a.held_high, a.held_low = amount(held) end
    keep_texts(a, balance, sequence)
    return standing(a, held == '0' and ' 0 ' or ' ' .. held .. ' ', tail.text)
end
