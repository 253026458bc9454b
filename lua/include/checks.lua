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
        reverse = shapes({ ID .. '\t' }, { AMOUNT, '%-' }, { '\t[01]$' }),
        set_limits = shapes({ '%-', '0', '%-' .. AMOUNT }, { '\t' }, { '%-$', 'none$', '0$', AMOUNT .. '$' }),
        freeze = shapes(DIRECTION), unfreeze = shapes(DIRECTION),
        close = { '^$' },
        adjust = shapes({ AMOUNT, '%-' .. AMOUNT }, BOOKING),
    }
end

local WHOLE, TO, FROM, LEGS, LEG = '^' .. AMOUNT .. '$', '^\tto\t' .. EXTERNAL .. '$', '^\tfrom\t' .. ID .. '\tto\t' .. EXTERNAL .. '$', '^\tlegs\t' .. EXTERNAL .. '\t' .. AMOUNT .. '\t', '\t' .. EXTERNAL .. '\t' .. AMOUNT
local function well_formed_booking(text)
    return text == '' or string.find(text, TO) or string.find(text, FROM) or string.find(text, LEGS) and string.gsub(text, LEG, '') == '\tlegs'
end

local function well_formed(verb, terms)
    if verb == 'adjust' and not well_formed_booking(string.match(terms, '^[^\t]+(.*)$') or '') then return false end
    made = made or make_shapes()
    for _, shape in ipairs(made[verb] or {}) do
        if string.find(terms, shape) then return true end
    end
    return false
end

-- What takes terms apart, by verb; nothing where they are not well-formed. Other verbs get them as they are.
local apart = {}

-- Their amounts stand in the rows. sign: of the change of the balance; no other verb has one.
function apart.credit(terms) return well_formed_booking(terms) and { sign = 1, booking = terms ~= '' and terms } end
function apart.debit(terms) return well_formed_booking(terms) and { sign = -1, booking = terms ~= '' and terms } end

function apart.hold(terms)
    local id, given, expires, counter = string.match(terms, '^([^\t\n]+)\t([1-9]%d*)\t([%d-]+)\t(.*)$')
    if not id or not (expires == '-' or expires == '0' or string.find(expires, WHOLE)) or counter ~= '' and not string.find(counter, '^@[^\t\n]*$') then return nil end
    local high, low = amount(given)
    return { hold = id, high = high, low = low, expires = expires, counter = counter }
end

-- hold: its id; high and low: how much of it, nil for all that is left.
function apart.capture(terms)
    local id, given, booking = string.match(terms, '^([^\t\n]+)\t([%d-]+)(.*)$')
    if not id or not (given == '-' or string.find(given, WHOLE)) or not well_formed_booking(booking) then return nil end
    local ask = { hold = id, booking = booking }
    if given ~= '-' then ask.high, ask.low = amount(given) end
    return ask
end

function apart.release(terms)
    local ask = apart.capture(terms)
    return ask and ask.booking == '' and ask
end

function apart.refuse(terms)
    return string.find(terms, '^[A-Z][A-Z_]+$') and { refusal = terms }
end

function apart.repair(terms)
    local log = string.match(terms, '^([^|]+)|.+|[^|]*$')
    return log and account(log) and { terms = terms }
end

-- What of an account's terms refuses a verb.
local REFUSED_BY = { debit = 'no_debit', hold = 'no_debit', capture = 'no_debit', credit = 'no_credit' }

local NEEDS_UNIT = { open = true, debit = true, credit = true, hold = true, adjust = true, repair = true }

-- What stands before the terms, understood once per call: verb, unit, and conditions if any. Or what is wrong with it.
local kinds = {}
local function kind_of(text)
    local verb, unit, deadline, sequence = string.match(text, '^([a-z_]+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n$')
    if not verb then return nil, 'ask' end
    if not (deadline == '-' or string.find(deadline, '^%-?%d+$')) or not (sequence == '-' or string.find(sequence, '^%d+$')) then return nil, 'conditions' end
    if unit == '' and NEEDS_UNIT[verb] or unit ~= '' and not string.find(unit, '^[A-Z0-9_]+/%d+$') then return nil, 'unit' end
    local kind = { verb = verb, decide = decide[verb], apart = apart[verb], unit = unit, refused_by = REFUSED_BY[verb] }
    if deadline ~= '-' then kind.deadline = tonumber(deadline) end
    if sequence ~= '-' then kind.sequence = tonumber(sequence) end
    kinds[text] = kind
    return kind
end

-- What a command asks for, understood: its kind, what decides it, and what the terms say. Or what is wrong with it.
-- text = "verb \n unit \n deadline ms or - \n sequence or - \n terms". Go checked the same before; here it must hold whoever sends it.
local function understand(text)
    local before, terms = string.match(text, '^(.*\n)(.*)$')
    local kind, why = kinds[before], 'ask'
    if not kind and before then kind, why = kind_of(before) end
    if not kind then return nil, why end
    local ask
    if kind.apart then
        ask = kind.apart(terms)
    else
        ask = well_formed(kind.verb, terms) and { terms = terms }
    end
    if not ask then return nil, 'terms of ' .. kind.verb end
    ask.kind, ask.decide = kind, kind.decide
    return ask
end

-- The first condition of a command that does not hold, as a reason. nil = all hold; and will, if there is nothing special, for as long as the account
-- has these terms: ask.fits.
local function unmet(ask, a)
    if ask.refusal then return ask.refusal end
    local kind = ask.kind
    if kind.deadline and tonumber(now) > kind.deadline then return 'DEADLINE_PASSED' end
    if kind.sequence and a and a.sequence ~= kind.sequence then return 'SEQUENCE_MISMATCH' end
    if kind.verb == 'open' or kind.verb == 'repair' then return nil end
    if not a then return 'ACCOUNT_UNKNOWN' end
    if kind.unit ~= '' and a.terms.unit ~= kind.unit then return 'CURRENCY_MISMATCH' end
    if kind.refused_by and a.terms[kind.refused_by] then return a.terms[kind.refused_by] end
    if not kind.deadline and not kind.sequence then ask.fits = a.terms end
end
