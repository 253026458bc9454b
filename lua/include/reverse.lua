-- What Redis remembers of the commands that this call reverses: hash of the id -> { outcome with its fingerprint, total reversed so far, bucket of both }.
local originals = {}

-- The far end of a transfer goes by an id that the ledger made (limits.CreditID); totals stand under the hash of the id and a line's end.
local function far_end(id) return '@credit/' .. id end
local function total_field(hash) return hash .. '\n' end

-- recent, old: what the buckets have by the number of the id + 1; the ids of what is reversed follow those of the commands.
local function read_originals(recent, old)
    for _, bucket in ipairs({ RECENT, OLD }) do
        local found = bucket == RECENT and recent or old
        for i = command_count + 1, #ids do
            local outcome = found[i + 1]
            if outcome then originals[ids[i]] = { outcome = outcome, total = redis.call('HGET', bucket, total_field(ids[i])), bucket = bucket } end
        end
    end
end

-- The command on this account (the first 6 bytes of a fingerprint stand for it) that goes by an id, the first of those that hashes stand for: the id, what
-- is known of it, the sign and amount of its change and the tail of its record; no amount where it was rejected.
local function original_of(id, hashes, fingerprint)
    for i, at in ipairs(hashes) do
        if decided[at] and not originals[at] then originals[at] = { outcome = decided[at] } end
        local o = originals[at]
        if o and string.sub(o.outcome, 1, 6) == string.sub(fingerprint, 1, 6) then
            return i == 1 and id or far_end(id), o, string.match(string.sub(o.outcome, 23), '^%d+ (%-?)(%d+) [^\t]*(.*)$')
        end
    end
end

-- How much is undone with this command, and with all so far; nothing if that is more than there was.
local function share(whole, total, given)
    local whole_high, whole_low = amount(whole)
    local total_high, total_low = amount(total or '0')
    local high, low = minus(whole_high, whole_low, total_high, total_low)
    if given ~= '-' then high, low = amount(given) end
    total_high, total_low = plus(total_high, total_low, high, low)
    if (high == 0 and low == 0) or below(whole_high, whole_low, total_high, total_low) then return nil end
    return high, low, digits(total_high, total_low)
end

-- What the tail of a record says of the other side, with the tabs before it: who sent it, and where it went. Word by word from the front: a hold's
-- id or an account may be "to" or "legs".
local function booked(tail)
    tail = string.gsub(tail, '^\thold\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*', '')
    local from, rest = string.match(tail, '^(\tfrom\t[^\t]*)(.*)$')
    rest = rest or tail
    return from or '', string.match(rest, '^\tto\t.*$') or '', string.match(rest, '^\tlegs\t.*$')
end

-- reverse: terms = "command id \t amount or - \t 1: may break the floor"; undoes a change of this account, never more than it was. What it books
-- goes back to where it came from.
local function reverse(a, ask, fingerprint)
    local named, given, forced = string.match(ask.terms, '^([^\t]+)\t([^\t]+)\t([01])$')
    local id, original, sign, whole, tail = original_of(named, ask.originals, fingerprint)
    if not whole or whole == '0' or string.find(tail, '^\treversed\t') then return nil, 'NOT_REVERSIBLE' end
    local from, to, legs = booked(tail)
    local near_end = to == '\tto\t@transit' and from == '' -- of a transfer, or a return
    local high, low, total = share(whole, original.total, given)
    if near_end or not high or (legs and digits(high, low) ~= whole) then return nil, 'NOT_REVERSIBLE' end
    local delta, balance_high, balance_low = digits(high, low), nil, nil
    if sign == '-' then
        balance_high, balance_low = plus(a.balance_high, a.balance_low, high, low)
        local word = a.terms.no_credit or over(a, balance_high, balance_low)
        if word then return nil, word end
    else
        delta, balance_high, balance_low = '-' .. delta, minus(a.balance_high, a.balance_low, high, low)
        if a.terms.no_debit then return nil, a.terms.no_debit end
        if not in_range(balance_high, balance_low) then return nil, 'LIMIT_EXCEEDED' end
        if forced == '0' and below(balance_high, balance_low, a.held.least_high, a.held.least_low) then return nil, 'INSUFFICIENT_FUNDS' end
    end
    original.total, original.touched = total, true
    return moved(a, balance_high, balance_low), delta, '\treversed\t' .. id .. '\t' .. total .. from .. (legs or to)
end
