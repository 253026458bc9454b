-- Commands that change the terms of an account, and move nothing.

-- set_limits: terms = "floor or - \t ceiling, none or -"; the account must stand within them.
local function set_limits(a, ask)
    local t = a.terms
    if t.status == 'closed' then return nil, 'ACCOUNT_CLOSED' end
    local floor, ceiling = string.match(ask.terms, '^([^\t]+)\t([^\t]+)$')
    local floor_high, floor_low, ceiling_high, ceiling_low = t.floor_high, t.floor_low, t.ceiling_high, t.ceiling_low
    if floor ~= '-' then floor_high, floor_low = amount(floor) end
    if ceiling == 'none' then
        ceiling_high, ceiling_low = nil, nil
    elseif ceiling ~= '-' then
        ceiling_high, ceiling_low = amount(ceiling)
    end
    if not in_range(floor_high, floor_low) or (ceiling_high and not in_range(ceiling_high, ceiling_low)) then return nil, 'LIMIT_EXCEEDED' end
    local least_high, least_low = plus(a.held.high, a.held.low, floor_high, floor_low)
    if below(a.balance_high, a.balance_low, least_high, least_low) then return nil, 'INSUFFICIENT_FUNDS' end
    if ceiling_high and below(ceiling_high, ceiling_low, a.balance_high, a.balance_low) then return nil, 'LIMIT_EXCEEDED' end
    local limits = { floor_high = floor_high, floor_low = floor_low, ceiling_high = ceiling_high, ceiling_low = ceiling_low }
    return under(a, terms_of(limits, t.unit, t.status)), '0'
end

-- Sets one bit per direction: which ones the status refuses, and the status that refuses them.
local FROZEN = { active = 0, frozen_debit = 1, frozen_credit = 2, frozen = 3 }
local BITS = { debit = 1, credit = 2, both = 3 }
local NAMED = { [0] = 'active', 'frozen_debit', 'frozen_credit', 'frozen' }

local function with_status(a, status) return under(a, terms_of(a.terms, a.terms.unit, status)) end

-- freeze: terms = debit | credit | both.
local function freeze(a, ask)
    if a.terms.status == 'closed' then return nil, 'ACCOUNT_CLOSED' end
    return with_status(a, NAMED[bit.bor(FROZEN[a.terms.status], BITS[ask.terms])]), '0'
end

-- unfreeze: terms = debit | credit | both.
local function unfreeze(a, ask)
    if a.terms.status == 'closed' then return nil, 'ACCOUNT_CLOSED' end
    return with_status(a, NAMED[bit.band(FROZEN[a.terms.status], bit.bnot(BITS[ask.terms]))]), '0'
end

-- close: no terms; the account is empty and holds nothing back.
local function close(a)
    if a.terms.status == 'closed' then return nil, 'ACCOUNT_CLOSED' end
    if a.balance_high ~= 0 or a.balance_low ~= 0 or a.held.high ~= 0 or a.held.low ~= 0 then return nil, 'ACCOUNT_NOT_EMPTY' end
    return with_status(a, 'closed'), '0'
end
