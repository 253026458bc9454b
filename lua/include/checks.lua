-- Units and amounts of this call that were found well-formed; amounts with their limbs.
local units, amounts = {}, {}

local function well_formed_amount(terms)
    if #terms > 18 or not string.find(terms, '^[1-9]%d*$') then return false end
    local high, low = amount(terms)
    amounts[terms] = { high = high, low = low, negative = '-' .. terms }
    return true
end

-- What must hold of the arguments, whoever sends them: Go checked the same before. nil = well-formed.
local function malformed(id, name, operation, terms, unit, fingerprint)
    if id == '' or name == '' then return 'empty id' end
    if #fingerprint ~= 16 then return 'fingerprint is not 16 bytes' end
    if operation == 'refuse' then
        return not string.find(terms, '^[A-Z][A-Z_]+$') and 'reason' or nil
    end
    if not units[unit] then
        if not string.find(unit, '^[A-Z0-9_]+/%d+$') then return 'unit' end
        units[unit] = true
    end
    if operation == 'debit' or operation == 'credit' then
        return not (amounts[terms] or well_formed_amount(terms)) and 'amount' or nil
    elseif operation == 'open' then
        local negative = #terms <= 19 and string.find(terms, '^%-[1-9]%d*$')
        return not (terms == '0' or negative) and 'floor' or nil
    elseif operation == 'repair' then
        local log = string.match(terms, '^([^|]+)|.+|[^|]*$')
        return not (log and account(log)) and 'repair' or nil
    end
    return 'operation'
end

-- The first condition of a well-formed command that does not hold, as a reason. nil = all hold.
local function unmet(operation, a, unit, conditions, now)
    if conditions ~= '- -' then
        local deadline, sequence = string.match(conditions, '^(%S+) (%S+)$')
        if deadline ~= '-' and tonumber(now) > tonumber(deadline) then return 'DEADLINE_PASSED' end
        if sequence ~= '-' and a and a.sequence ~= tonumber(sequence) then return 'SEQUENCE_MISMATCH' end
    end
    if operation == 'open' or operation == 'repair' then return nil end
    if not a then return 'ACCOUNT_UNKNOWN' end
    if a.unit ~= unit then return 'CURRENCY_MISMATCH' end
end
