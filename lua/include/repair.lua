-- repair: terms = "log record|seen record or -|generation". Redis is rewritten to match the log; nothing is booked.
-- The account must still be what was seen, or have moved on from the same sequence: there the correction of an amount is a difference, right at
-- any later sequence too, and a term is corrected if it still is what was seen. A recovery since then (another generation) voids the repair.
local function repair(a, ask)
    local log_record, seen_record, at_generation = string.match(ask.terms, '^([^|]+)|(.+)|([^|]*)$')
    local log, seen = account(log_record), account(seen_record)
    if at_generation ~= generation then return nil, 'SEQUENCE_MISMATCH' end
    if not a or not seen then
        if a or seen_record ~= '-' then return nil, 'SEQUENCE_MISMATCH' end
        a = log
    elseif seen.sequence == log.sequence and a.sequence > seen.sequence then
        local high, low = minus(log.balance_high, log.balance_low, seen.balance_high, seen.balance_low)
        high, low = plus(a.balance_high, a.balance_low, high, low)
        local held_high, held_low = minus(log.held.high, log.held.low, seen.held.high, seen.held.low)
        held_high, held_low = plus(a.held.high, a.held.low, held_high, held_low)
        if not in_range(high, low) or not in_range(held_high, held_low) or held_high < 0 then return nil, 'LIMIT_EXCEEDED' end
        local is, was, right = a.terms, seen.terms, log.terms
        a.balance_high, a.balance_low = high, low
        a.terms = terms_of(limits_text(is) == limits_text(was) and right or is, is.unit == was.unit and right.unit or is.unit, is.status == was.status and right.status or is.status)
        return holding(a, held_high, held_low), '0'
    else
        if account_record(a) ~= seen_record then return nil, 'SEQUENCE_MISMATCH' end
        a = log
    end
    return moved(a, a.balance_high, a.balance_low), '0'
end
