-- +goose NO TRANSACTION

-- +goose Up

-- A balance is the sum of an account's changes, provided that each sequence from 1 to the last is there exactly once: count, maximum and sum
-- of the sequences tell, in the same scan. Where a row is there twice (or is missing), it is what the ledger said after the last change,
-- so nothing counts twice, and is_proven is false.

CREATE OR REPLACE VIEW ${FINANCE}.balances
(
    account         String                COMMENT 'A controlled account; what external accounts stand at, trial_balance says',
    currency        String                COMMENT 'ISO 4217 code or custom unit of the account. Never add up balances of two currencies',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    balance_minor   Int128                COMMENT 'Posted balance in minor units: the sum of all booked changes',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    held_minor      Int128                COMMENT 'Set aside by holds (not available) in minor units',
    held            Decimal(38, 18)       COMMENT 'held_minor in major units',
    floor_minor     Int128                COMMENT 'Lowest balance allowed in minor units: 0, or negative for an overdraft',
    floor           Decimal(38, 18)       COMMENT 'floor_minor in major units',
    ceiling_minor   Nullable(Int128)      COMMENT 'Highest balance that a credit may lead to, in minor units; NULL where there is none',
    ceiling         Nullable(Decimal(38, 18)) COMMENT 'ceiling_minor in major units',
    available_minor Int128                COMMENT 'What can be debited, in minor units: balance less held less floor',
    available       Decimal(38, 18)       COMMENT 'available_minor in major units',
    status          String                COMMENT 'active, frozen_debit, frozen_credit, frozen or closed',
    is_proven       Bool                  COMMENT 'Every change is here once, and they add up to what the ledger said after the last one',
    sequence        UInt64                COMMENT 'Number of the account''s last change: what the balance is as of',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took that last change',
    opened_at       DateTime64(3, 'UTC')  COMMENT 'When the log took the first one, the opening',
    shard           UInt16                COMMENT 'The account''s shard; the view freshness says how far it is complete'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.account AS account,
    splitByChar('/', t.u)[1] AS currency,
    toUInt8OrZero(splitByChar('/', t.u)[2]) AS exponent,
    if(t.n = t.s AND t.q * 2 = toInt128(t.s) * (t.s + 1), t.total, t.said) AS balance_minor,
    toDecimal128(balance_minor, 18) / intExp10(exponent) AS balance,
    t.h AS held_minor,
    toDecimal128(t.h, 18) / intExp10(exponent) AS held,
    t.f AS floor_minor,
    toDecimal128(t.f, 18) / intExp10(exponent) AS floor,
    t.c AS ceiling_minor,
    toDecimal128(t.c, 18) / intExp10(exponent) AS ceiling,
    balance_minor - t.h - t.f AS available_minor,
    toDecimal128(available_minor, 18) / intExp10(exponent) AS available,
    t.status AS status,
    toBool(t.n = t.s AND t.q * 2 = toInt128(t.s) * (t.s + 1) AND t.total = t.said) AS is_proven,
    t.s AS sequence,
    t.at AS booked_at,
    t.since AS opened_at,
    t.shard AS shard
FROM
(
    SELECT
        e.account AS account,
        toString(e.unit) AS u,
        count() AS n,
        max(e.sequence) AS s,
        sum(toInt128(e.sequence)) AS q,
        sumIf(toInt128(e.delta), e.operation != 'repair') AS total,
        toInt128(argMax(e.balance_after, e.sequence)) AS said,
        toInt128(argMax(e.held_after, e.sequence)) AS h,
        toInt128(argMax(e.floor_after, e.sequence)) AS f,
        nullIf(toInt128(argMax(ifNull(e.ceiling_after, -1), e.sequence)), -1) AS c, -- argMax skips NULL; a ceiling is never negative
        toString(argMax(e.account_status, e.sequence)) AS status,
        max(e.log_time) AS at,
        min(e.log_time) AS since,
        any(e.shard) AS shard
    FROM ${LEDGER}.events AS e
    WHERE e.status = 'applied'
    GROUP BY e.account, u
) AS t
COMMENT 'What each account stands at: posted, held and available';

-- Parameterised (such a view does not convert to the types that it declares): SELECT * FROM balance_as_of(account = 'alice', time = '2026-02-01').
CREATE OR REPLACE VIEW ${FINANCE}.balance_as_of
(
    account         String                COMMENT 'The account that was asked for; no row where it was not open yet',
    currency        String                COMMENT 'ISO 4217 code or custom unit of the account',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    balance_minor   Int128                COMMENT 'Posted balance in minor units: the sum of all changes that the log took before the time (UTC)',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    held_minor      Int128                COMMENT 'Set aside by holds then, in minor units',
    held            Decimal(38, 18)       COMMENT 'held_minor in major units',
    available_minor Int128                COMMENT 'What could be debited then, in minor units: balance less held less floor',
    available       Decimal(38, 18)       COMMENT 'available_minor in major units',
    status          String                COMMENT 'Status of the account then',
    is_proven       Bool                  COMMENT 'Every change is here once, and they add up to what the ledger said after the last one',
    sequence        UInt64                COMMENT 'Number of the account''s last change before the time',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took that change'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.account AS account,
    splitByChar('/', t.u)[1] AS currency,
    toUInt8OrZero(splitByChar('/', t.u)[2]) AS exponent,
    if(t.n = t.s AND t.q * 2 = toInt128(t.s) * (t.s + 1), t.total, t.said) AS balance_minor,
    toDecimal128(balance_minor, 18) / intExp10(exponent) AS balance,
    t.h AS held_minor,
    toDecimal128(t.h, 18) / intExp10(exponent) AS held,
    balance_minor - t.h - t.f AS available_minor,
    toDecimal128(available_minor, 18) / intExp10(exponent) AS available,
    t.status AS status,
    toBool(t.n = t.s AND t.q * 2 = toInt128(t.s) * (t.s + 1) AND t.total = t.said) AS is_proven,
    t.s AS sequence,
    t.at AS booked_at
FROM
(
    SELECT
        e.account AS account,
        toString(e.unit) AS u,
        count() AS n,
        max(e.sequence) AS s,
        sum(toInt128(e.sequence)) AS q,
        sumIf(toInt128(e.delta), e.operation != 'repair') AS total,
        toInt128(argMax(e.balance_after, e.sequence)) AS said,
        toInt128(argMax(e.held_after, e.sequence)) AS h,
        toInt128(argMax(e.floor_after, e.sequence)) AS f,
        toString(argMax(e.account_status, e.sequence)) AS status,
        max(e.log_time) AS at
    FROM ${LEDGER}.events AS e
    WHERE e.account = {account:String} AND e.log_time < {time:DateTime64(3, 'UTC')} AND e.status = 'applied'
    GROUP BY e.account, u
) AS t
COMMENT 'What one account stood at, at a moment; call it with account = ''...'', time = ''...''';

-- Parameterised: SELECT * FROM trial_balance(as_of = '2026-02-01'). Events are added up per pair of accounts first, and the two sides made
-- of the sums; a group, whose sides are several, is its own key.
CREATE OR REPLACE VIEW ${FINANCE}.trial_balance
(
    currency        String                COMMENT 'ISO 4217 code or custom unit: a trial balance is one of each currency',
    account         String                COMMENT 'Every account, of either kind, that money was booked on before the time (UTC)',
    kind            String                COMMENT 'controlled (the ledger decides its balance), external (the world outside), or transit (money between the two ends of a transfer)',
    debits_minor    Int128                COMMENT 'All that was taken off it, in minor units, not signed',
    debits          Decimal(76, 18)       COMMENT 'debits_minor in major units',
    credits_minor   Int128                COMMENT 'All that was put on it, in minor units',
    credits         Decimal(76, 18)       COMMENT 'credits_minor in major units',
    balance_minor   Int128                COMMENT 'credits less debits, in minor units',
    balance         Decimal(76, 18)       COMMENT 'balance_minor in major units',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    is_balanced     Bool                  COMMENT 'All balances of this currency add up to 0; the same on every row of a currency'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    splitByChar('/', t.u)[1] AS currency,
    t.account AS account,
    multiIf(t.account = '@transit', 'transit', startsWith(t.account, '@'), 'external', 'controlled') AS kind,
    t.debits AS debits_minor,
    toDecimal256(t.debits, 18) / intExp10(exponent) AS debits,
    t.credits AS credits_minor,
    toDecimal256(t.credits, 18) / intExp10(exponent) AS credits,
    t.credits - t.debits AS balance_minor,
    toDecimal256(balance_minor, 18) / intExp10(exponent) AS balance,
    toUInt8OrZero(splitByChar('/', t.u)[2]) AS exponent,
    toBool(sum(t.credits - t.debits) OVER (PARTITION BY t.u) = 0) AS is_balanced
FROM
(
    SELECT
        toString(p.unit) AS u,
        side.1 AS account,
        sumIf(side.2, side.3) AS credits,
        sumIf(side.2, NOT side.3) AS debits
    FROM
    (
        SELECT
            account,
            unit,
            counter_account,
            delta > 0 AS up,
            if(length(legs) > 1, legs, []) AS several,
            sum(toInt128(abs(delta))) AS total,
            count() AS n
        FROM
        (
            SELECT account, unit, counter_account, delta, legs FROM ${LEDGER}.events
            WHERE log_time < {as_of:DateTime64(3, 'UTC')} AND status = 'applied' AND operation != 'repair' AND delta != 0
            ORDER BY account, sequence, position LIMIT 1 BY account, sequence, position
        )
        GROUP BY account, unit, counter_account, up, several
    ) AS p
    ARRAY JOIN arrayConcat(
        [(p.account, p.total, p.up)],
        if(empty(p.several), [(p.counter_account, p.total, NOT p.up)], arrayMap(l -> (l.1, toInt128(l.2) * p.n, NOT p.up), p.several))
    ) AS side
    GROUP BY u, account
) AS t
COMMENT 'Debits, credits and balance of every account at a moment, per currency; call it with as_of = ''...''';
