-- repair: terms = "log record|seen record or -|generation". Redis is rewritten to match the log; nothing is booked.
-- The account must still be what was seen, or have moved on from the same sequence: there the correction of an amount is a difference, right at
-- any later sequence too, and a term is corrected if it still is what was seen. A recovery since then (another generation) voids the repair.
local function repair(a, ask, _, _, name)
    local log_record, seen_record, at_generation = string.match(ask.terms, '^([^|]+)|(.+)|([^|]*)$')
    local log, seen = account(log_record, name), account(seen_record)
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
        if limits_text(a) == limits_text(seen) then
            a.floor_high, a.floor_low, a.ceiling_high, a.ceiling_low = log.floor_high, log.floor_low, log.ceiling_high, log.ceiling_low
        end
        if a.unit == seen.unit then a.unit = log.unit end
        if a.status == seen.status then a.status = log.status end
    else
        if account_record(a) ~= seen_record then return 'SEQUENCE_MISMATCH' end
        a = log
    end
    return nil, '0', renewed(a)
end
