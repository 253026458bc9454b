-- +goose NO TRANSACTION

-- +goose Up

-- The finance database holds views only, and readers are granted this database alone: DEFINER lets a view read what its reader may not.
-- Amounts come twice. amount_minor is a whole number of minor units; it is Int128, because ClickHouse's sum() of Int64 wraps silently.
-- amount is the same in major units, as a decimal with room for every exponent.
-- An event that was inserted twice counts once everywhere: lines are read through events_once, sums are taken as 00005 says.

CREATE OR REPLACE VIEW ${FINANCE}.journal
(
    account         String                COMMENT 'The account that the command names',
    sequence        UInt64                COMMENT 'Number of the change within the account, gap-free from 1; 0 where rejected',
    shard           UInt16                COMMENT 'With position: the place in the log',
    position        UInt64                COMMENT 'Number of the event within its shard, gap-free from 1',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took it; booking periods go by this',
    decided_at      DateTime64(3, 'UTC')  COMMENT 'When it was decided',
    effective_at    DateTime64(3, 'UTC')  COMMENT 'When the business says it happened',
    business_date   Date                  COMMENT 'The ledger''s day that it counts for, by its time zone and cutoff',
    transaction_id  String                COMMENT 'Id of the request as its caller named it: both ends of a transfer have the same',
    command_id      String                COMMENT 'Id of the command; those that the ledger issued itself start with @credit/, @return/, @undo/ or @expire/',
    operation       String                COMMENT 'open, debit, credit, hold, capture, release, transfer, reverse, return, adjust, set_limits, freeze, unfreeze, close, or repair (rewrites a wrong copy; never moves money)',
    status          String                COMMENT 'applied or rejected; a rejected request moved nothing',
    reason          String                COMMENT 'Why it was rejected; empty where applied',
    counter_account String                COMMENT 'The other side of the posting (external accounts start with @), empty where nothing was booked or the sides are several: see postings. Of a rejected request the one that was asked for',
    counterparty    String                COMMENT 'The account at the other end of a transfer; else as counter_account',
    amount_minor    Int128                COMMENT 'Signed change of the balance in minor units: a debit is negative; 0 where nothing moved',
    amount          Decimal(38, 18)       COMMENT 'amount_minor in major units',
    balance_minor   Int128                COMMENT 'Balance of the account after it, in minor units, as the ledger said at the time; 0 where there is no account',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    held_minor      Int128                COMMENT 'Held back (not available) after it, in minor units',
    held            Decimal(38, 18)       COMMENT 'held_minor in major units',
    currency        String                COMMENT 'ISO 4217 code or custom unit; empty where unknown. Never add up amounts of two currencies',
    exponent        UInt8                 COMMENT 'Decimals of the currency: 2 says that 1250 minor units are 12.50',
    account_status  String                COMMENT 'Status of the account after it: active, frozen_debit, frozen_credit, frozen, closed; empty where there is no account',
    hold_id         String                COMMENT 'The hold that it opened, captured or released; empty for all else',
    reversed_id     String                COMMENT 'The command that it reversed, wholly or in part; empty for all else',
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
    e.business_date AS business_date,
    if(startsWith(e.command_id, '@'), substring(e.command_id, position(e.command_id, '/') + 1), e.command_id) AS transaction_id,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    toString(e.status) AS status,
    toString(e.reason) AS reason,
    e.counter_account AS counter_account,
    multiIf(e.transfer_to != '', e.transfer_to, e.transfer_account != '', e.transfer_account, e.counter_account) AS counterparty,
    toInt128(e.delta) AS amount_minor,
    toDecimal128(e.delta, 18) / intExp10(exponent) AS amount,
    toInt128(e.balance_after) AS balance_minor,
    toDecimal128(e.balance_after, 18) / intExp10(exponent) AS balance,
    toInt128(e.held_after) AS held_minor,
    toDecimal128(e.held_after, 18) / intExp10(exponent) AS held,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    toString(e.account_status) AS account_status,
    e.hold_id AS hold_id,
    e.reversed_command_id AS reversed_id,
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
    business_date   Date                  COMMENT 'The ledger''s day that it counts for, by its time zone and cutoff',
    transaction_id  String                COMMENT 'Id of the request as its caller named it: both ends of a transfer have the same',
    command_id      String                COMMENT 'Id of the command: both sides of a posting, and all postings of a group, carry the same',
    leg             UInt16                COMMENT 'Number of the posting within its command, from 1: a group has several',
    operation       String                COMMENT 'What was asked for',
    reference       String                COMMENT 'The caller''s reference',
    description     String                COMMENT 'The caller''s text',
    shard           UInt16                COMMENT 'With position: the place in the log, the same for both sides',
    position        UInt64                COMMENT 'Number of the event within its shard'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    p.1 AS account,
    p.2 AS counter_account,
    if(p.3 < 0, 'debit', 'credit') AS side,
    p.3 AS amount_minor,
    toDecimal128(p.3, 18) / intExp10(exponent) AS amount,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.log_time AS booked_at,
    e.effective_at AS effective_at,
    e.business_date AS business_date,
    if(startsWith(e.command_id, '@'), substring(e.command_id, position(e.command_id, '/') + 1), e.command_id) AS transaction_id,
    e.command_id AS command_id,
    toUInt16(p.4) AS leg,
    toString(e.operation) AS operation,
    e.reference AS reference,
    e.description AS description,
    e.shard AS shard,
    e.position AS position
FROM
(
    SELECT *, if(empty(legs), [('@world', toInt128(abs(delta)))], legs) AS others, sign(delta) AS way
    FROM ${LEDGER}.events_once
    WHERE status = 'applied' AND operation != 'repair' AND delta != 0
) AS e
ARRAY JOIN arrayConcat(
    arrayMap((other, n) -> (e.account, other.1, way * other.2, n), others, arrayEnumerate(others)),
    arrayMap((other, n) -> (other.1, e.account, -way * other.2, n), others, arrayEnumerate(others))
) AS p
COMMENT 'Double entry: two rows per leg of each applied event that moved money, which add up to 0';

-- Parameterised: SELECT * FROM account_statement(account = 'alice', from = '2026-01-01', to = '2026-02-01'). The running balance starts from
-- everything before the period, and a line shows the same balance in every excerpt. The order within one account is that of the table,
-- so the lines are read by index, and need no events_once.
CREATE OR REPLACE VIEW ${FINANCE}.account_statement
(
    line                  UInt64                COMMENT 'Number of the line within the statement, from 1',
    account               String                COMMENT 'The account that was asked for',
    sequence              UInt64                COMMENT 'Number of the change within the account; changes that move no money have no line',
    booked_at             DateTime64(3, 'UTC')  COMMENT 'When the log took it: from "from" on, and before "to" (UTC)',
    effective_at          DateTime64(3, 'UTC')  COMMENT 'When the business says it happened',
    business_date         Date                  COMMENT 'The ledger''s day that it counts for, by its time zone and cutoff',
    transaction_id        String                COMMENT 'Id of the request as its caller named it',
    command_id            String                COMMENT 'Id of the command; those that the ledger issued itself start with @credit/, @return/, @undo/ or @expire/',
    operation             String                COMMENT 'What moved the money: debit, credit, capture, transfer, reverse, return or adjust',
    counterparty          String                COMMENT 'The account at the other end of a transfer, else the other side of the posting; of a group all sides',
    reference             String                COMMENT 'The caller''s reference',
    description           String                COMMENT 'The caller''s text',
    debit                 Decimal(38, 18)       COMMENT 'What it took off, in major units; 0 on a credit',
    credit                Decimal(38, 18)       COMMENT 'What it put on, in major units; 0 on a debit',
    amount_minor          Int128                COMMENT 'Signed change in minor units',
    amount                Decimal(38, 18)       COMMENT 'amount_minor in major units',
    running_balance_minor Int128                COMMENT 'Sum of all changes of the account up to and with this one, in minor units',
    running_balance       Decimal(38, 18)       COMMENT 'running_balance_minor in major units',
    currency              String                COMMENT 'ISO 4217 code or custom unit',
    exponent              UInt8                 COMMENT 'Decimals of the currency',
    shard                 UInt16                COMMENT 'With position: the place in the log',
    position              UInt64                COMMENT 'Number of the event within its shard'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS WITH
(
    SELECT if(n = s AND q * 2 = toInt128(s) * (s + 1), total, said)
    FROM
    (
        SELECT count() AS n, max(sequence) AS s, sum(toInt128(sequence)) AS q,
            sumIf(toInt128(delta), operation != 'repair') AS total, toInt128(argMax(balance_after, sequence)) AS said
        FROM ${LEDGER}.events
        WHERE account = {account:String} AND log_time < {from:DateTime64(3, 'UTC')} AND status = 'applied'
    )
) AS opening
SELECT
    row_number() OVER (ORDER BY e.sequence, e.position) AS line,
    e.account AS account,
    e.sequence AS sequence,
    e.log_time AS booked_at,
    e.effective_at AS effective_at,
    e.business_date AS business_date,
    if(startsWith(e.command_id, '@'), substring(e.command_id, position(e.command_id, '/') + 1), e.command_id) AS transaction_id,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    multiIf(e.transfer_to != '', e.transfer_to, e.transfer_account != '', e.transfer_account, length(e.legs) > 1, arrayStringConcat(e.legs.counter_account, ', '), e.counter_account) AS counterparty,
    e.reference AS reference,
    e.description AS description,
    toDecimal128(greatest(-e.delta, 0), 18) / intExp10(exponent) AS debit,
    toDecimal128(greatest(e.delta, 0), 18) / intExp10(exponent) AS credit,
    toInt128(e.delta) AS amount_minor,
    toDecimal128(e.delta, 18) / intExp10(exponent) AS amount,
    opening + sum(toInt128(e.delta)) OVER (ORDER BY e.sequence, e.position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running_balance_minor,
    toDecimal128(running_balance_minor, 18) / intExp10(exponent) AS running_balance,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.shard AS shard,
    e.position AS position
FROM
(
    SELECT * FROM ${LEDGER}.events
    WHERE account = {account:String} AND log_time >= {from:DateTime64(3, 'UTC')} AND log_time < {to:DateTime64(3, 'UTC')}
        AND status = 'applied' AND operation != 'repair' AND delta != 0
    ORDER BY sequence, position LIMIT 1 BY sequence, position
) AS e
COMMENT 'The lines of one account in a period, with a running balance; call it with account = ''...'', from = ''...'', to = ''...''';

CREATE OR REPLACE VIEW ${FINANCE}.rejections
(
    account         String                COMMENT 'The account that the command named, which need not exist',
    booked_at       DateTime64(3, 'UTC')  COMMENT 'When the log took the rejection',
    decided_at      DateTime64(3, 'UTC')  COMMENT 'When it was decided',
    business_date   Date                  COMMENT 'The ledger''s day that it counts for, by its time zone and cutoff',
    transaction_id  String                COMMENT 'Id of the request as its caller named it: a transfer that its far end refused is rejected there',
    command_id      String                COMMENT 'Id of the command',
    operation       String                COMMENT 'What was asked for',
    reason          String                COMMENT 'Why not',
    counter_account String                COMMENT 'The other side that was asked for; empty where none was named',
    asked_minor     Int128                COMMENT 'The amount that was asked for, in minor units; 0 where it named none that can be read',
    asked           Decimal(38, 18)       COMMENT 'asked_minor in major units',
    balance_minor   Int128                COMMENT 'What the account stood at, in minor units; 0 where there is no account',
    balance         Decimal(38, 18)       COMMENT 'balance_minor in major units',
    available_minor Int128                COMMENT 'What could be debited then, in minor units: balance less held less floor',
    available       Decimal(38, 18)       COMMENT 'available_minor in major units',
    currency        String                COMMENT 'Currency of the account, or, where there is no account, of the request; empty where neither is known',
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
    e.business_date AS business_date,
    if(startsWith(e.command_id, '@'), substring(e.command_id, position(e.command_id, '/') + 1), e.command_id) AS transaction_id,
    e.command_id AS command_id,
    toString(e.operation) AS operation,
    toString(e.reason) AS reason,
    e.counter_account AS counter_account,
    toInt128(e.asked_amount) AS asked_minor,
    toDecimal128(e.asked_amount, 18) / intExp10(exponent) AS asked,
    toInt128(e.balance_after) AS balance_minor,
    toDecimal128(e.balance_after, 18) / intExp10(exponent) AS balance,
    toInt128(e.balance_after) - e.held_after - e.floor_after AS available_minor,
    toDecimal128(available_minor, 18) / intExp10(exponent) AS available,
    splitByChar('/', toString(e.unit))[1] AS currency,
    toUInt8OrZero(splitByChar('/', toString(e.unit))[2]) AS exponent,
    e.reference AS reference,
    e.description AS description,
    toString(e.source) AS source,
    e.shard AS shard,
    e.position AS position
FROM
(
    SELECT * FROM ${LEDGER}.events WHERE status = 'rejected'
    ORDER BY account, sequence, position, log_time, business_date LIMIT 1 BY account, sequence, position, log_time, business_date
) AS e
COMMENT 'What was asked for and refused, with the reason; none of it moved money';
