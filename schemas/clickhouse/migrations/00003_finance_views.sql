-- +goose NO TRANSACTION

-- +goose Up

-- The finance database holds views only, and readers are granted this database alone: DEFINER lets a view read what its reader may not.
-- Amounts come twice. amount_minor is a whole number of minor units; it is Int128, because ClickHouse's sum() of Int64 wraps silently.
-- amount is the same in major units, as a decimal with room for every exponent.

CREATE OR REPLACE VIEW ${FINANCE}.journal
(
    account         String                COMMENT 'The account that the command names',
    sequence        UInt64                COMMENT 'Number of the change within the account, gap-free from 1; 0 where rejected',
    shard           UInt16                COMMENT 'With position: the place in the log',
    position        UInt64                COMMENT 'Number of the event within its shard, gap-free from 1',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took it; booking periods go by this',
    decided_at      DateTime64(3, 'UTC')  COMMENT 'When it was decided',
    effective_at    DateTime64(3, 'UTC')  COMMENT 'When the business says it happened',
    command_id      String                COMMENT 'Id of the request, chosen by the caller',
    operation       String                COMMENT 'open, debit, credit, or repair (rewrites a wrong copy; never moves money)',
    status          String                COMMENT 'applied or rejected; a rejected request moved nothing',
    reason          String                COMMENT 'Why it was rejected; empty where applied',
    counter_account String                COMMENT 'The other side of the posting; external accounts start with @',
    amount_minor    Int128                COMMENT 'Signed change of the balance in minor units: a debit is negative; 0 where nothing moved',
    amount          Decimal(38, 18)       COMMENT 'amount_minor in major units',
    balance_minor   Int128                COMMENT 'Balance of the account after it, in minor units, as the ledger said at the time; 0 where there is no account',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    held_minor      Int128                COMMENT 'Held back (not available) after it, in minor units',
    held            Decimal(38, 18)       COMMENT 'held_minor in major units',
    currency        String                COMMENT 'ISO 4217 code or custom unit; empty where unknown. Never add up amounts of two currencies',
    exponent        UInt8                 COMMENT 'Decimals of the currency: 2 says that 1250 minor units are 12.50',
    reference       String                COMMENT 'The caller''s reference',
    description     String                COMMENT 'The caller''s text',
    metadata        Map(String, String)   COMMENT 'The caller''s metadata',
    source          String                COMMENT 'The service that asked'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    e.account AS account,
    e.sequence AS sequence,
    e.shard AS shard,
    e.position AS position,
    e.log_time AS booked_at,
    e.decided_at AS decided_at,
    e.effective_at AS effective_at,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    toString(e.status) AS status,
    toString(e.reason) AS reason,
    e.counter_account AS counter_account,
    toInt128(e.delta) AS amount_minor,
    toDecimal128(e.delta, 18) / intExp10(exponent) AS amount,
    toInt128(e.balance_after) AS balance_minor,
    toDecimal128(e.balance_after, 18) / intExp10(exponent) AS balance,
    toInt128(e.held_after) AS held_minor,
    toDecimal128(e.held_after, 18) / intExp10(exponent) AS held,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.reference AS reference,
    e.description AS description,
    e.metadata AS metadata,
    toString(e.source) AS source
FROM ${LEDGER}.events_once AS e
COMMENT 'One row per event: everything that was asked for, and what became of it';

CREATE OR REPLACE VIEW ${FINANCE}.postings
(
    account         String                COMMENT 'The account that this side changes; external accounts start with @',
    counter_account String                COMMENT 'The account of the other side',
    side            String                COMMENT 'debit takes off the account, credit puts on it',
    amount_minor    Int128                COMMENT 'Signed change of the account in minor units; both sides of a posting add up to 0',
    amount          Decimal(38, 18)       COMMENT 'amount_minor in major units',
    currency        String                COMMENT 'ISO 4217 code or custom unit. Never add up amounts of two currencies',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took it; booking periods go by this',
    effective_at    DateTime64(3, 'UTC')  COMMENT 'When the business says it happened',
    command_id      String                COMMENT 'Id of the request: both sides of a posting carry the same',
    operation       String                COMMENT 'What was asked for',
    reference       String                COMMENT 'The caller''s reference',
    description     String                COMMENT 'The caller''s text',
    shard           UInt16                COMMENT 'With position: the place in the log, the same for both sides',
    position        UInt64                COMMENT 'Number of the event within its shard'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    leg.1 AS account,
    leg.2 AS counter_account,
    if(leg.3 < 0, 'debit', 'credit') AS side,
    leg.3 AS amount_minor,
    toDecimal128(leg.3, 18) / intExp10(exponent) AS amount,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.log_time AS booked_at,
    e.effective_at AS effective_at,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    e.reference AS reference,
    e.description AS description,
    e.shard AS shard,
    e.position AS position
FROM ${LEDGER}.events_once AS e
ARRAY JOIN [
    (e.account, if(e.counter_account = '', '@world', e.counter_account), toInt128(e.delta)),
    (if(e.counter_account = '', '@world', e.counter_account), e.account, -toInt128(e.delta))
] AS leg
WHERE e.status = 'applied' AND e.operation != 'repair' AND e.delta != 0
COMMENT 'Double entry: two rows per applied event that moved money, which add up to 0';

CREATE OR REPLACE VIEW ${FINANCE}.balances
(
    account         String                COMMENT 'A controlled account; what external accounts stand at, add up from postings',
    currency        String                COMMENT 'ISO 4217 code or custom unit of the account',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    balance_minor   Int128                COMMENT 'Theoretical balance in minor units: the sum of all booked changes',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    held_minor      Int128                COMMENT 'Held back (not available) in minor units',
    held            Decimal(38, 18)       COMMENT 'held_minor in major units',
    floor_minor     Int128                COMMENT 'Lowest balance allowed in minor units: 0, or negative for an overdraft',
    floor           Decimal(38, 18)       COMMENT 'floor_minor in major units',
    available_minor Int128                COMMENT 'What can be debited, in minor units: balance less held less floor',
    available       Decimal(38, 18)       COMMENT 'available_minor in major units',
    sequence        UInt64                COMMENT 'Number of the account''s last change: what the balance is as of',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took that last change',
    shard           UInt16                COMMENT 'The account''s shard; the view freshness says how far it is complete'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.account AS account,
    splitByChar('/', t.u)[1] AS currency,
    toUInt8OrZero(splitByChar('/', t.u)[2]) AS exponent,
    t.b AS balance_minor,
    toDecimal128(t.b, 18) / intExp10(exponent) AS balance,
    t.h AS held_minor,
    toDecimal128(t.h, 18) / intExp10(exponent) AS held,
    t.f AS floor_minor,
    toDecimal128(t.f, 18) / intExp10(exponent) AS floor,
    t.b - t.h - t.f AS available_minor,
    toDecimal128(t.b - t.h - t.f, 18) / intExp10(exponent) AS available,
    t.s AS sequence,
    t.at AS booked_at,
    t.shard AS shard
FROM
(
    SELECT
        e.account AS account,
        toString(e.unit) AS u,
        sumIf(toInt128(e.delta), e.operation != 'repair') AS b,
        toInt128(argMax(e.held_after, (e.sequence, e.position))) AS h,
        toInt128(argMax(e.floor_after, (e.sequence, e.position))) AS f,
        max(e.sequence) AS s,
        max(e.log_time) AS at,
        any(e.shard) AS shard
    FROM ${LEDGER}.events_once AS e
    WHERE e.status = 'applied'
    GROUP BY e.account, u
) AS t
COMMENT 'What each account stands at by the log';

-- Parameterised: SELECT * FROM account_statement(account = 'alice') WHERE booked_at >= '2026-01-01'. The running balance is taken over the
-- whole account before the reader's filter, so a line shows the same balance in every excerpt.
CREATE OR REPLACE VIEW ${FINANCE}.account_statement
(
    line                  UInt64                COMMENT 'Number of the line within the account, from 1',
    account               String                COMMENT 'The account that was asked for',
    sequence              UInt64                COMMENT 'Number of the change within the account; changes that move no money have no line',
    booked_at             DateTime64(3, 'UTC')  COMMENT 'When the log took it',
    effective_at          DateTime64(3, 'UTC')  COMMENT 'When the business says it happened',
    command_id            String                COMMENT 'Id of the request',
    operation             String                COMMENT 'debit or credit',
    counter_account       String                COMMENT 'The other side',
    reference             String                COMMENT 'The caller''s reference',
    description           String                COMMENT 'The caller''s text',
    debit                 Decimal(38, 18)       COMMENT 'What it took off, in major units; 0 on a credit',
    credit                Decimal(38, 18)       COMMENT 'What it put on, in major units; 0 on a debit',
    amount_minor          Int128                COMMENT 'Signed change in minor units',
    amount                Decimal(38, 18)       COMMENT 'amount_minor in major units',
    running_balance_minor Int128                COMMENT 'Sum of all changes up to and with this one, in minor units',
    running_balance       Decimal(38, 18)       COMMENT 'running_balance_minor in major units',
    currency              String                COMMENT 'ISO 4217 code or custom unit',
    exponent              UInt8                 COMMENT 'Decimals of the currency',
    shard                 UInt16                COMMENT 'With position: the place in the log',
    position              UInt64                COMMENT 'Number of the event within its shard'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    row_number() OVER (PARTITION BY e.unit ORDER BY e.sequence, e.position) AS line,
    e.account AS account,
    e.sequence AS sequence,
    e.log_time AS booked_at,
    e.effective_at AS effective_at,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    e.counter_account AS counter_account,
    e.reference AS reference,
    e.description AS description,
    toDecimal128(greatest(-e.delta, 0), 18) / intExp10(exponent) AS debit,
    toDecimal128(greatest(e.delta, 0), 18) / intExp10(exponent) AS credit,
    toInt128(e.delta) AS amount_minor,
    toDecimal128(e.delta, 18) / intExp10(exponent) AS amount,
    sum(toInt128(e.delta)) OVER (PARTITION BY e.unit ORDER BY e.sequence, e.position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running_balance_minor,
    toDecimal128(running_balance_minor, 18) / intExp10(exponent) AS running_balance,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.shard AS shard,
    e.position AS position
FROM ${LEDGER}.events_once AS e
WHERE e.account = {account:String} AND e.status = 'applied' AND e.operation != 'repair' AND e.delta != 0
COMMENT 'The lines of one account with a running balance; call it with account = ''...''';

CREATE OR REPLACE VIEW ${FINANCE}.rejections
(
    account         String                COMMENT 'The account that the command named, which need not exist',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took the rejection',
    decided_at      DateTime64(3, 'UTC')  COMMENT 'When it was decided',
    command_id      String                COMMENT 'Id of the request',
    operation       String                COMMENT 'What was asked for',
    reason          String                COMMENT 'Why not',
    counter_account String                COMMENT 'The other side that was asked for',
    balance_minor   Int128                COMMENT 'What the account stood at, in minor units; 0 where there is no account',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    currency        String                COMMENT 'Currency of the account; empty where there is no account',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    reference       String                COMMENT 'The caller''s reference',
    description     String                COMMENT 'The caller''s text',
    source          String                COMMENT 'The service that asked',
    shard           UInt16                COMMENT 'With position: the place in the log',
    position        UInt64                COMMENT 'Number of the event within its shard'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    e.account AS account,
    e.log_time AS booked_at,
    e.decided_at AS decided_at,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    toString(e.reason) AS reason,
    e.counter_account AS counter_account,
    toInt128(e.balance_after) AS balance_minor,
    toDecimal128(e.balance_after, 18) / intExp10(exponent) AS balance,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.reference AS reference,
    e.description AS description,
    toString(e.source) AS source,
    e.shard AS shard,
    e.position AS position
FROM ${LEDGER}.events_once AS e
WHERE e.status = 'rejected'
COMMENT 'What was asked for and refused, with the reason; none of it moved money';

CREATE OR REPLACE VIEW ${FINANCE}.freshness
(
    shard            UInt16                          COMMENT 'An account belongs to one shard',
    state            String                          COMMENT 'complete; gap: an event is missing before last_position; duplicate: a row was inserted twice, which no view counts twice',
    complete_through Nullable(DateTime64(3, 'UTC'))  COMMENT 'Everything that the log took up to then is in the views; NULL where there is a gap',
    last_position    UInt64                          COMMENT 'Number of the last event that is here',
    events           UInt64                          COMMENT 'Number of rows that are here',
    ingested_at      DateTime64(3, 'UTC')            COMMENT 'When the last row came in'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.shard AS shard,
    multiIf(t.n > t.last, 'duplicate', t.n < t.last OR t.first != 1 OR t.total * 2 != toInt128(t.last) * (t.last + 1), 'gap', 'complete') AS state,
    if(state = 'gap', NULL, t.at) AS complete_through,
    t.last AS last_position,
    t.n AS events,
    t.ingested AS ingested_at
FROM
(
    SELECT
        e.shard AS shard,
        count() AS n,
        min(e.position) AS first,
        max(e.position) AS last,
        sum(toInt128(e.position)) AS total,
        max(e.log_time) AS at,
        max(e.ingested_at) AS ingested
    FROM ${LEDGER}.events AS e
    GROUP BY e.shard
) AS t
COMMENT 'How far each shard of the ledger is in these views';
