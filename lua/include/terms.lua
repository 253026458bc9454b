-- Commands that change the terms of an account, and move nothing.

-- set_limits: terms = "floor or - \t ceiling, none or -"; the account must stand within them.
local function set_limits(a, ask)
    if a.status == 'closed' then return 'ACCOUNT_CLOSED' end
    local floor, ceiling = string.match(ask.terms, '^([^\t]+)\t([^\t]+)$')
    local floor_high, floor_low, ceiling_high, ceiling_low = a.floor_high, a.floor_low, a.ceiling_high, a.ceiling_low
    if floor ~= '-' then floor_high, floor_low = amount(floor) end
    if ceiling == 'none' then
        ceiling_high, ceiling_low = nil, nil
    elseif ceiling ~= '-' then
        ceiling_high, ceiling_low = amount(ceiling)
    end
    if not in_range(floor_high, floor_low) or (ceiling_high and not in_range(ceiling_high, ceiling_low)) then return 'LIMIT_EXCEEDED' end
    local least_high, least_low = plus(a.held_high, a.held_low, floor_high, floor_low)
    if below(a.balance_high, a.balance_low, least_high, least_low) then return 'INSUFFICIENT_FUNDS' end
    if ceiling_high and below(ceiling_high, ceiling_low, a.balance_high, a.balance_low) then return 'LIMIT_EXCEEDED' end
    a.floor_high, a.floor_low, a.ceiling_high, a.ceiling_low = floor_high, floor_low, ceiling_high, ceiling_low
    return nil, '0', renewed(a)
end

-- Sets one bit per direction: which ones the status refuses, and the status that refuses them.
local FROZEN = { active = 0, frozen_debit = 1, frozen_credit = 2, frozen = 3 }
local BITS = { debit = 1, credit = 2, both = 3 }
local NAMED = { [0] = 'active', 'frozen_debit', 'frozen_credit', 'frozen' }

-- freeze: terms = debit | credit | both.
local function freeze(a, ask)
    if a.status == 'closed' then return 'ACCOUNT_CLOSED' end
    a.status = NAMED[bit.bor(FROZEN[a.status], BITS[ask.terms])]
    return nil, '0', renewed(a)
end

-- unfreeze: terms = debit | credit | both.
local function unfreeze(a, ask)
    if a.status == 'closed' then return 'ACCOUNT_CLOSED' end
    a.status = NAMED[bit.band(FROZEN[a.status], bit.bnot(BITS[ask.terms]))]
    return nil, '0', renewed(a)
end

-- close: no terms; the account is empty and holds nothing back.
local function close(a)
    if a.status == 'closed' then return 'ACCOUNT_CLOSED' end
    if a.balance_high ~= 0 or a.balance_low ~= 0 or a.held_high ~= 0 or a.held_low ~= 0 then return 'ACCOUNT_NOT_EMPTY' end
    a.status = 'closed'
    return nil, '0', renewed(a)
end
