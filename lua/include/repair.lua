-- repair: terms = "log record|seen record or -|generation". Redis is rewritten to match the log; nothing is booked.
-- The account must still be what was seen. It may have moved on to a later sequence where only amounts differed at the one seen:
-- there the correction is a difference, right at any later sequence too. A recovery since then (another generation) voids the repair.
local function repair(a, terms, _, generation)
    local log_record, seen_record, at_generation = string.match(terms, '^([^|]+)|(.+)|([^|]*)$')
    local log, seen = account(log_record), account(seen_record)
    if at_generation ~= generation then return 'SEQUENCE_MISMATCH' end
    if not a or not seen then
        if a or seen_record ~= '-' then return 'SEQUENCE_MISMATCH' end
        a = log
    elseif seen.sequence == log.sequence and a.sequence > seen.sequence then
        local high, low = minus(log.balance_high, log.balance_low, seen.balance_high, seen.balance_low)
        high, low = plus(a.balance_high, a.balance_low, high, low)
        local held_high, held_low = minus(log.held_high, log.held_low, seen.held_high, seen.held_low)
        held_high, held_low = plus(a.held_high, a.held_low, held_high, held_low)
        if not in_range(high, low) or not in_range(held_high, held_low) or held_high < 0 then return 'LIMIT_EXCEEDED' end
        a.balance_high, a.balance_low, a.held_high, a.held_low = high, low, held_high, held_low
        a.floor_high, a.floor_low, a.unit = log.floor_high, log.floor_low, log.unit
    else
        if account_record(a) ~= seen_record then return 'SEQUENCE_MISMATCH' end
        a = log
    end
    a.sequence = a.sequence + 1
    return nil, '0', standing(a)
end
