-- repair: terms = "generation|seen record or -|log record". Redis is rewritten to match the log; nothing is booked.
-- Where only amounts differ at one sequence, the correction is a difference, right at any later sequence too.
-- Otherwise the account must still be exactly what was seen. A recovery since then (another generation) voids the repair.
local function repair(a, terms, _, generation)
    local at_generation, seen_record, log_record = string.match(terms, '^([^|]*)|([^|]+)|([^|]+)$')
    local seen, log = account(seen_record), account(log_record)
    if at_generation ~= generation then return 'SEQUENCE_MISMATCH' end
    if not a or not seen then
        if a or seen then return 'SEQUENCE_MISMATCH' end
        a = log
    elseif seen.sequence == log.sequence then
        if a.sequence < seen.sequence then return 'SEQUENCE_MISMATCH' end
        local high, low = minus(log.balance_high, log.balance_low, seen.balance_high, seen.balance_low)
        high, low = plus(a.balance_high, a.balance_low, high, low)
        if not in_range(high, low) then return 'LIMIT_EXCEEDED' end
        a.balance_high, a.balance_low = high, low
        high, low = minus(log.held_high, log.held_low, seen.held_high, seen.held_low)
        a.held_high, a.held_low = plus(a.held_high, a.held_low, high, low)
        a.floor_high, a.floor_low, a.unit = log.floor_high, log.floor_low, log.unit
    else
        if account_record(a) ~= seen_record then return 'SEQUENCE_MISMATCH' end
        a = log
    end
    a.sequence = a.sequence + 1
    return 'applied', '0', a
end
