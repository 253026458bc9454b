-- An account as its record in the accounts hash: "<balance> <sequence> <unit>". What is held stands behind the balance, "<balance>:<held>", and limits
-- and status behind the unit, "<unit> <floor>[:<ceiling>] <status>", where they are not those of most accounts: nothing held, 0, no ceiling, active.
-- In memory it has its balance and sequence, the texts of their first digits (text.lua), and two tables that are never changed, only replaced, since
-- accounts share them: terms (floor, ceiling, unit, status and what follows from them) and held (what is held back, and the least balance that a
-- debit may leave: held + floor).

-- By the number that commands name it by.
local function account_name(number) return ARGV[FIRST - 1 + number] end

-- What refuses debits and credits of an account, by its status.
local STATUS = {
    active = {}, closed = { debit = 'ACCOUNT_CLOSED', credit = 'ACCOUNT_CLOSED' },
    frozen = { debit = 'ACCOUNT_FROZEN', credit = 'ACCOUNT_FROZEN' },
    frozen_debit = { debit = 'ACCOUNT_FROZEN' }, frozen_credit = { credit = 'ACCOUNT_FROZEN' },
}

local function held_back(terms, high, low)
    if high == 0 and low == 0 and terms.nothing_held then return terms.nothing_held end
    local least_high, least_low = plus(high, low, terms.floor_high, terms.floor_low)
    return { high = high, low = low, least_high = least_high, least_low = least_low, text = high == 0 and low == 0 and ' ' or ':' .. amount_text(high, low) .. ' ' }
end

local function limits_text(t)
    local floor = digits(t.floor_high, t.floor_low)
    return t.ceiling_high and floor .. ':' .. digits(t.ceiling_high, t.ceiling_low) or floor
end

-- limits: a table with floor and perhaps a ceiling, as terms have them.
local function terms_of(limits, unit, status)
    local terms = {
        floor_high = limits.floor_high, floor_low = limits.floor_low, ceiling_high = limits.ceiling_high, ceiling_low = limits.ceiling_low,
        floor = limits.floor_high * BASE + limits.floor_low, ceiling = limits.ceiling_high and limits.ceiling_high * BASE + limits.ceiling_low or math.huge,
        unit = unit, status = status, no_debit = STATUS[status].debit, no_credit = STATUS[status].credit,
    }
    local limits = limits_text(terms)
    terms.text = limits == '0' and status == 'active' and ' ' .. unit or ' ' .. unit .. ' ' .. limits .. ' ' .. status
    terms.nothing_held = held_back(terms, 0, 0)
    return terms
end

-- One more change of the account, of the balance alone.
local function moved(a, high, low)
    a.balance_high, a.balance_low, a.sequence = high, low, a.sequence + 1
    return a
end

-- One more change of the account, of what it holds back.
local function holding(a, high, low)
    a.held, a.sequence = held_back(a.terms, high, low), a.sequence + 1
    return a
end

-- One more change of the account, of its terms; what is held stays.
local function under(a, terms)
    a.terms = terms
    return holding(a, a.held.high, a.held.low)
end

-- An amount as this ledger writes it: at most 18 digits, no leading zero. text is digits, and "-" before them perhaps.
local function exact(text)
    local first = string.byte(text)
    if first == 48 then return #text == 1 end
    if first == 45 then return #text < 20 and string.byte(text, 2) ~= 48 end
    return #text < 19
end

-- What a record says behind the sequence: unit, floor, ceiling and status. Most accounts of a call share it, so it is read once.
local read_terms = {}
local function read_once(text)
    local floor, ceiling, status, unit, more = '0', '', 'active', match(text, '^ ([A-Z0-9_]+/%d+)(.*)$')
    if not unit then return nil end
    if more ~= '' then floor, ceiling, status = match(more, '^ (%-?%d+):?(%d*) (%S+)$') end
    if not floor or not exact(floor) or ceiling ~= '' and not exact(ceiling) or not STATUS[status] then return nil end
    local limits = {}
    limits.floor_high, limits.floor_low = amount(floor)
    if ceiling ~= '' then limits.ceiling_high, limits.ceiling_low = amount(ceiling) end
    local terms = terms_of(limits, unit, status)
    if terms.text ~= text then return nil end -- there is one way to write them
    read_terms[text] = terms
    return terms
end

-- Most records as they must be: balance, sequence and terms, with nothing held. A balance of 0 has its own pattern, for no other number begins with a 0.
local PLAIN, EMPTY = '^(%-?[1-9]%d*) ([1-9]%d*)( .+)$', '^(0) ([1-9]%d*)( .+)$'

-- nil for a record that this ledger would not have written. Adding 0 makes a number of a text, for half of what tonumber costs.
local function account(record)
    local held, balance, sequence, text = '', match(record, PLAIN)
    if not balance or #balance > 18 then
        balance, held, sequence, text = match(record, '^(%-?%d+)(:?%-?%d*) (%d+)( .+)$')
        if not balance or not (exact(balance) and exact(sequence)) then return nil end
        if held ~= '' then
            held = string.match(held, '^:(.+)$')
            if not held or held == '0' or not exact(held) then return nil end
        end
    end
    local terms = read_terms[text] or read_once(text)
    if not terms or #sequence > 15 then return nil end
    local high, low = amount(balance)
    return { balance_high = high, balance_low = low, sequence = sequence + 0, held = held == '' and terms.nothing_held or held_back(terms, amount(held)), terms = terms }
end

-- What a credit must not do: pass the ceiling or 18 digits. nil = it does not.
local function over(a, high, low)
    local terms = a.terms
    if high >= TOP or terms.ceiling_high and below(terms.ceiling_high, terms.ceiling_low, high, low) then return 'LIMIT_EXCEEDED' end
end
