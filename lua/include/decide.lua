-- Decides the commands of a call in their order, in memory. Debits and credits are decided here, not in functions of their own: most commands are
-- these two, and calling a function costs as much as deciding one.
--   debit, credit: terms = "[booking]". A debit needs amount <= available = balance - held - floor, which is to say: what it leaves is not below
--   held + floor. A credit must not pass the ceiling or 18 digits.
-- Most accounts have one command in a call, as the caller says. If it is a debit or credit, and plainly within the limits, then the account is never
-- made of its record: the new record follows from the old one. "Plainly": nothing is held, all numbers are exact in one Lua number, the terms are known
-- to fit. Whatever is not so simple is left to the account taken apart, which decides the same. An account that turns out to have more commands goes on
-- from its new record.

-- What became of them: the known ones, as the answer lists them, and their numbers; the outcomes of the others, in their order, and with their ids as
-- HSET takes them; how many these are. Or nil and the answer that ends the call.
local function decide_all(recent, old)
    local ARGV, accounts, records, asks, decided, states, read_terms, plain, two, match, format = ARGV, accounts, records, asks, decided, states, read_terms, plain, two, match, format
    local row, ROW, rows, ids, place, PLAIN, BASE, SHORT, ALONE = struct.unpack, ROW, rows, ids, 1, PLAIN, BASE, SHORT, ALONE -- locals are found faster
    local last_asked, ask, sign, begins, booked, amount_high, amount_low, amount_said, change -- of what the last command asked for, which often is the next one's
    local position, clock = tonumber(believed_position), struct.pack('>I6', now)
    local last, upper, pair = position % 100, clock, plain -- the position's last two digits; time and the text of the others; and the texts for the last two
    if position > 99 then upper, pair = clock .. format('%d', (position - last) / 100), two end
    local outcomes, known, skipped, fresh, count, filled = { RECENT, '', chain }, {}, {}, {}, 0, changed
    for at = 2, command_count + 1 do -- what was read has the marker at 1
        local number, asked_for, high, low, fingerprint, following = row(ROW, rows, place)
        local alone = number >= ALONE
        if alone then number = number - ALONE end
        local id, a, record = ids[at - 1], accounts[number], nil
        if a == nil then record = records[number + 1] end
        local outcome = decided[id] or recent[at] or old[at]
        place = following
        if outcome then
            if record and take_apart(number) == nil then return nil, unreadable(number) end
            local word = string.sub(outcome, 1, 16) == fingerprint and ' remembered ' or ' reused '
            known[#known + 1], skipped[#skipped + 1] = at - 1 .. word .. string.sub(outcome, 17), at - 1
        else
            if a == nil and record == nil then return nil, invalid('row of command ' .. at - 1) end
            if asked_for ~= last_asked or low ~= amount_low or high ~= amount_high then
                last_asked, ask, amount_high, amount_low = asked_for, asks[asked_for], high, low
                if not ask or low >= BASE or high >= TOP then return nil, invalid('row of command ' .. at - 1) end
                sign, begins, booked, amount_said = ask.sign, ask.sign == -1 and ' -' or ' ', ask.booking, high == 0 and plain[low] or digits(high, low)
                change = sign and high < SHORT and sign * (high * BASE + low)
                if sign and amount_said == '0' or not sign and amount_said ~= '0' then return nil, invalid('amount of command ' .. at - 1) end
            end
            local said, booking, terms, held, balance, n, text, refused, s1, s2 = amount_said, booked, nil, nil, nil, nil, nil, nil, '', nil
            if alone and change and record then
                balance, n, text = match(record, PLAIN)
                if not n then balance, n, text = match(record, EMPTY) end
                terms = read_terms[text]
                if terms and terms == ask.fits and #balance < 16 and #n < 15 then
                    balance, n = balance + change, n + 1
                    if balance < terms.floor or balance > terms.ceiling then n = nil end
                else
                    n = nil
                end
            end
            if not n then
                if a == nil then
                    a = take_apart(number)
                    if a == nil then return nil, unreadable(number) end
                end
                balance, terms, held = nil, a and a.terms, a and a.held
                if terms ~= ask.fits then refused = unmet(ask, a) end
                if refused then
                    said = refused
                elseif sign then
                    high, low = a.balance_high + sign * high, a.balance_low + sign * low
                    if low < 0 then
                        high, low = high - 1, low + BASE
                    elseif low >= BASE then
                        high, low = high + 1, low - BASE
                    end
                    if sign > 0 then
                        refused = (high >= TOP or terms.ceiling_high) and over(a, high, low)
                    elseif high < held.least_high or high == held.least_high and low < held.least_low then
                        refused = 'INSUFFICIENT_FUNDS'
                    end
                    if refused then
                        said = refused
                    else
                        n = a.sequence + 1
                        a.balance_high, a.balance_low, a.sequence = high, low, n
                    end
                else
                    local after
                    after, said, booking = ask.decide(a, ask, fingerprint, number)
                    if after then
                        if after ~= a then a, accounts[number] = after, after end
                        high, low, n, terms, held = a.balance_high, a.balance_low, a.sequence, a.terms, a.held
                    end
                end
            end
            count, last = count + 1, last + 1
            if last == 100 then last, upper, pair = 0, clock .. format('%d', (position + count) / 100), two end
            if not n then
                outcome = fingerprint .. upper .. pair[last] .. ' ' .. said .. ' ' .. (a and account_record(a) or '-')
            else
                if n < 100 then
                    s2 = plain[n]
                else
                    s2 = n % 100
                    s1, s2 = plain[(n - s2) / 100], two[s2]
                end
                if balance then
                    record = format('%d', balance) .. ' ' .. s1 .. s2 .. text
                    records[number + 1], states[filled + 1], states[filled + 2], filled = record, ARGV[FIRST - 1 + number], record, filled + 2
                    outcome = fingerprint .. upper .. pair[last] .. begins .. said .. ' ' .. record
                else
                    local b1, b2, b3 = a.limb_text, nil, nil
                    if a.limb == high then -- most are the same; calling a function costs as much as deciding
                        b3 = low % 100
                        b2, b3 = two[(low - b3) / 100], two[b3]
                    else
                        b1, b2, b3 = balance_text(a)
                    end
                    outcome = fingerprint .. upper .. pair[last] .. begins .. said .. ' ' .. b1 .. b2 .. b3 .. held.text .. s1 .. s2 .. terms.text
                end
                if booking then outcome = outcome .. booking end
            end
            local o = count + count + 2
            decided[id], fresh[count], outcomes[o], outcomes[o + 1] = outcome, outcome, id, outcome
        end
    end
    changed = filled
    return known, skipped, fresh, outcomes, count
end
