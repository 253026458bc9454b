-- A booking says where the other side goes, if not all
-- of it to @world: "\tto\t<account>", "\tlegs\t<account>\t<amount>...", and before it "\tfrom\t<account>" at the far end of a transfer.

-- The shapes of terms: all combinations of one word of each list. How large a number may be is decided with the account.
local AMOUNT, ID, EXTERNAL = '[1-9]%d*', '[^\t\n]+', '@[^\t\n]*'
local function shapes(...)
    local all = { '^' }
    for _, words in ipairs({ ... }) do
        local longer = {}
        for _, begun in ipairs(all) do
            for _, word in ipairs(words) do longer[#longer + 1] = begun .. word end
        end
        all = longer
    end
    return all
end
-- Made when they are first needed: most calls hold nothing but debits and credits.
local made
local function make_shapes()
    local FLOOR, BOOKING, DIRECTION = { '0', '%-' .. AMOUNT }, { '$', '\t' }, { 'debit$', 'credit$', 'both$' }
    return {
        open = shapes(FLOOR, { '$', ':0$', ':' .. AMOUNT .. '$' }),
        hold = shapes({ AMOUNT .. '\t' }, { '0\t', AMOUNT .. '\t', '%-\t' }, { '$', EXTERNAL .. '$' }),
        capture = shapes({ ID .. '\t' }, { AMOUNT, '%-' }, BOOKING),
        release = shapes({ ID .. '\t' }, { AMOUNT .. '$', '%-$' }),
        reverse = shapes({ ID .. '\t' }, { AMOUNT, '%-' }, { '\t[01]$' }),
        set_limits = shapes({ '%-', '0', '%-' .. AMOUNT }, { '\t' }, { '%-$', 'none$', '0$', AMOUNT .. '$' }),
        freeze = shapes(DIRECTION), unfreeze = shapes(DIRECTION),
        close = { '^$' },
        adjust = shapes({ AMOUNT, '%-' .. AMOUNT }, BOOKING),
    }
end

local function well_formed_booking(text)
    return text == '' or string.find(text, '^\tto\t' .. EXTERNAL .. '$') or string.find(text, '^\tfrom\t' .. ID .. '\tto\t' .. EXTERNAL .. '$')
        or string.find(text, '^\tlegs\t' .. EXTERNAL .. '\t' .. AMOUNT .. '\t') and string.gsub(text, '\t' .. EXTERNAL .. '\t' .. AMOUNT, '') == '\tlegs'
end

local BEFORE_BOOKING = { capture = '^[^\t]+\t[^\t]+(.*)$', adjust = '^[^\t]+(.*)$' }
local function well_formed(operation, terms)
    local before = BEFORE_BOOKING[operation]
    if before and not well_formed_booking(string.match(terms, before) or '') then return false end
    made = made or make_shapes()
    for _, shape in ipairs(made[operation] or {}) do
        if string.find(terms, shape) then return true end
    end
    return false
end

-- Amount and booking of a debit or credit, taken apart; nothing where they are not well-formed.
local function amount_and_booking(terms)
    local text, booking = string.match(terms, '^(' .. AMOUNT .. ')(.*)$')
    if not text or #text > 18 or not well_formed_booking(booking) then return nil end
    local high, low = amount(text)
    return { high = high, low = low, amount = text, negative = '-' .. text, booking = booking ~= '' and booking or nil }
end

local NEEDS_UNIT = { open = true, debit = true, credit = true, hold = true, adjust = true, repair = true }

-- What commands ask for, understood: verb, its function, terms, unit, conditions if any, and what the terms say. Or what is wrong with it.
-- text = "verb \n unit \n deadline ms or - \n sequence or - \n terms". Go checked the same before; here it must hold whoever sends it.
local function understand(text)
    local verb, unit, deadline, sequence, terms = string.match(text, '^([a-z_]+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
    if not verb then return nil, 'ask' end
    if not (deadline == '-' or string.find(deadline, '^%-?%d+$')) or not (sequence == '-' or string.find(sequence, '^%d+$')) then return nil, 'conditions' end
    if unit == '' and NEEDS_UNIT[verb] or unit ~= '' and not string.find(unit, '^[A-Z0-9_]+/%d+$') then return nil, 'unit' end
    local ask
    if verb == 'debit' or verb == 'credit' then
        ask = amount_and_booking(terms)
    elseif verb == 'refuse' then
        ask = string.find(terms, '^[A-Z][A-Z_]+$') and { refusal = terms }
    elseif verb == 'repair' then
        local log = string.match(terms, '^([^|]+)|.+|[^|]*$')
        ask = log and account(log) and {}
    else
        ask = well_formed(verb, terms) and {}
    end
    if not ask then return nil, 'terms of ' .. verb end
    ask.verb, ask.decide, ask.terms, ask.unit = verb, decide[verb], terms, unit
    if deadline ~= '-' then ask.deadline = tonumber(deadline) end
    if sequence ~= '-' then ask.sequence = tonumber(sequence) end
    ask.special = ask.refusal or ask.deadline or ask.sequence
    return ask
end

-- The first condition of a command that does not hold, as a reason. nil = all hold.
local function unmet(ask, a)
    if ask.refusal then return ask.refusal end
    if ask.deadline and tonumber(now) > ask.deadline then return 'DEADLINE_PASSED' end
    if ask.sequence and a and a.sequence ~= ask.sequence then return 'SEQUENCE_MISMATCH' end
    if ask.verb == 'open' or ask.verb == 'repair' then return nil end
    if not a then return 'ACCOUNT_UNKNOWN' end
    if ask.unit ~= '' and a.terms.unit ~= ask.unit then return 'CURRENCY_MISMATCH' end
    if not ask.special then ask.fits = a.terms end
end
