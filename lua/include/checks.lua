-- Units and amounts of this call that were found well-formed; amounts with their limbs. A booking says where the other side goes, if not all
-- of it to @world: "\tto\t<account>", "\tlegs\t<account>\t<amount>...", and before it "\tfrom\t<account>" at the far end of a transfer.
local units, amounts = {}, {}

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
        conditions = shapes({ '%- ', '%-?%d+ ' }, { '%-$', '%d+$' }),
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

local function well_formed_amount(terms)
    local text, booking = string.match(terms, '^(' .. AMOUNT .. ')(.*)$')
    if not text or #text > 18 or not well_formed_booking(booking) then return false end
    local high, low = amount(text)
    amounts[terms] = { high = high, low = low, text = text, negative = '-' .. text, booking = booking ~= '' and booking or nil }
    return true
end

local NEEDS_UNIT = { open = true, debit = true, credit = true, hold = true, adjust = true, repair = true }

-- What must hold of the arguments, whoever sends them: Go checked the same before. nil = well-formed.
local function malformed(id, name, operation, terms, unit, fingerprint, conditions)
    if id == '' or name == '' then return 'empty id' end
    if conditions ~= '- -' and not well_formed('conditions', conditions) then return 'conditions' end
    if #fingerprint ~= 16 then return 'fingerprint is not 16 bytes' end
    if operation == 'refuse' then
        return not string.find(terms, '^[A-Z][A-Z_]+$') and 'reason' or nil
    end
    if not units[unit] then
        if unit == '' and NEEDS_UNIT[operation] or unit ~= '' and not string.find(unit, '^[A-Z0-9_]+/%d+$') then return 'unit' end
        units[unit] = unit ~= ''
    end
    if operation == 'debit' or operation == 'credit' then
        return not (amounts[terms] or well_formed_amount(terms)) and 'amount' or nil
    elseif operation == 'repair' then
        local log = string.match(terms, '^([^|]+)|.+|[^|]*$')
        return not (log and account(log)) and 'repair' or nil
    end
    if operation == 'hold' and string.find(id .. name, '[\t\n]') then return 'id or account' end -- they are words of records
    return not well_formed(operation, terms) and 'operation or its terms' or nil
end

-- The first condition of a well-formed command that does not hold, as a reason. nil = all hold.
local function unmet(operation, a, unit, conditions)
    if conditions ~= '- -' then
        local deadline, sequence = string.match(conditions, '^(%S+) (%S+)$')
        if deadline ~= '-' and tonumber(now) > tonumber(deadline) then return 'DEADLINE_PASSED' end
        if sequence ~= '-' and a and a.sequence ~= tonumber(sequence) then return 'SEQUENCE_MISMATCH' end
    end
    if operation == 'open' or operation == 'repair' then return nil end
    if not a then return 'ACCOUNT_UNKNOWN' end
    if unit ~= '' and a.unit ~= unit then return 'CURRENCY_MISMATCH' end
end
