-- +goose NO TRANSACTION

-- +goose Up

-- The last event of a hold says what is left of it, however often it is there.
CREATE OR REPLACE VIEW ${FINANCE}.open_holds
(
    account         String                         COMMENT 'The account that the money is set aside on',
    hold_id         String                         COMMENT 'Id of the hold: the id of the command that asked for it',
    state           String                         COMMENT 'open, or expired: nothing can be captured any more, and the ledger is about to release it',
    remaining_minor Int128                         COMMENT 'What is still set aside, in minor units; all open holds of an account add up to its held',
    remaining       Decimal(38, 18)                COMMENT 'remaining_minor in major units',
    amount_minor    Int128                         COMMENT 'What was set aside at first, in minor units',
    amount          Decimal(38, 18)                COMMENT 'amount_minor in major units',
    currency        String                         COMMENT 'ISO 4217 code or custom unit of the account',
    exponent        UInt8                          COMMENT 'Decimals of the currency',
    opened_at       DateTime64(3, 'UTC')           COMMENT 'When the log took the hold',
    age_seconds     Int64                          COMMENT 'Seconds since then',
    age             String                         COMMENT '< 1 h, < 24 h, 1-3 d, 3-7 d or > 7 d',
    expires_at      Nullable(DateTime64(3, 'UTC')) COMMENT 'When it ends by itself; NULL where it does not',
    counter_account String                         COMMENT 'Where a capture goes that does not say otherwise',
    reference       String                         COMMENT 'The caller''s reference',
    description     String                         COMMENT 'The caller''s text',
    last_change_at  DateTime64(3, 'UTC')           COMMENT 'When the log took its last capture or release; the opening where there was none'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.account AS account,
    t.hold_id AS hold_id,
    if(t.expires_at <= now64(3), 'expired', 'open') AS state,
    toInt128(t.remaining) AS remaining_minor,
    toDecimal128(t.remaining, 18) / intExp10(exponent) AS remaining,
    toInt128(t.first.1) AS amount_minor,
    toDecimal128(t.first.1, 18) / intExp10(exponent) AS amount,
    splitByChar('/', t.u)[1] AS currency,
    toUInt8OrZero(splitByChar('/', t.u)[2]) AS exponent,
    t.opened_at AS opened_at,
    dateDiff('second', t.opened_at, now64(3)) AS age_seconds,
    multiIf(age_seconds < 3600, '< 1 h', age_seconds < 86400, '< 24 h', age_seconds < 3 * 86400, '1-3 d', age_seconds < 7 * 86400, '3-7 d', '> 7 d') AS age,
    t.expires_at AS expires_at,
    if(t.counter = '', '@world', t.counter) AS counter_account,
    t.first.2 AS reference,
    t.first.3 AS description,
    t.changed_at AS last_change_at
FROM
(
    SELECT
        e.account AS account,
        e.hold_id AS hold_id,
        toString(any(e.unit)) AS u,
        argMax(e.hold_remaining, e.sequence) AS remaining,
        argMin((e.hold_remaining, e.reference, e.description), e.sequence) AS first,
        any(e.hold_expires_at) AS expires_at,
        any(e.hold_counter_account) AS counter,
        min(e.log_time) AS opened_at,
        max(e.log_time) AS changed_at
    FROM ${LEDGER}.events AS e
    WHERE e.hold_id != '' AND e.status = 'applied'
    GROUP BY e.account, e.hold_id
    HAVING remaining > 0
) AS t
COMMENT 'Holds of which something is left, with their age and expiry';

-- A transfer, and a reversal of one, passes @transit once each way, under the same transaction id.
CREATE OR REPLACE VIEW ${FINANCE}.transit
(
    transaction_id  String                COMMENT 'Id of the transfer, or of the reversal of one, as its caller named it',
    from_account    String                COMMENT 'The account that the money left',
    to_account      String                COMMENT 'The account that it is on the way to',
    amount_minor    Int128                COMMENT 'What stands on @transit, in minor units',
    amount          Decimal(38, 18)       COMMENT 'amount_minor in major units',
    currency        String                COMMENT 'ISO 4217 code or custom unit',
    exponent        UInt8                 COMMENT 'Decimals of the currency',
    left_at         DateTime64(3, 'UTC')  COMMENT 'When the log took the near end',
    age_seconds     Int64                 COMMENT 'Seconds since then; more than a few want a look'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    t.id AS transaction_id,
    t.near.1 AS from_account,
    if(t.near.2 != '', t.near.2, t.near.3) AS to_account,
    t.standing AS amount_minor,
    toDecimal128(t.standing, 18) / intExp10(exponent) AS amount,
    splitByChar('/', t.u)[1] AS currency,
    toUInt8OrZero(splitByChar('/', t.u)[2]) AS exponent,
    t.left_at AS left_at,
    dateDiff('second', t.left_at, now64(3)) AS age_seconds
FROM
(
    SELECT
        if(startsWith(e.command_id, '@'), substring(e.command_id, position(e.command_id, '/') + 1), e.command_id) AS id,
        toString(e.unit) AS u,
        -sum(toInt128(e.delta)) AS standing,
        argMin((e.account, e.transfer_to, e.transfer_account), e.delta) AS near,
        min(e.log_time) AS left_at
    FROM
    (
        SELECT * FROM ${LEDGER}.events
        WHERE counter_account = '@transit' AND status = 'applied'
        ORDER BY account, sequence, position LIMIT 1 BY account, sequence, position
    ) AS e
    GROUP BY id, u
    HAVING standing != 0
) AS t
COMMENT 'Money between the two ends of a transfer; no row when all is quiet';

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

CREATE OR REPLACE VIEW ${FINANCE}.freshness_overall
(
    state            String                          COMMENT 'complete; otherwise the worst of the shards: gap, then duplicate; empty: no event came yet',
    complete_through Nullable(DateTime64(3, 'UTC'))  COMMENT 'Everything that the log took up to then is in the views, on every shard; a shard where nothing happens holds it back. NULL where there is a gap',
    events           UInt64                          COMMENT 'Number of rows that are here',
    shards           UInt64                          COMMENT 'Shards that have events',
    ingested_at      Nullable(DateTime64(3, 'UTC'))  COMMENT 'When the last row came in'
)
DEFINER = CURRENT_USER SQL SECURITY DEFINER
AS SELECT
    multiIf(count() = 0, 'empty', countIf(f.state = 'gap') > 0, 'gap', countIf(f.state = 'duplicate') > 0, 'duplicate', 'complete') AS state,
    if(countIf(f.state = 'gap') > 0, NULL, min(f.complete_through)) AS complete_through,
    sum(f.events) AS events,
    count() AS shards,
    maxOrNull(f.ingested_at) AS ingested_at
FROM ${FINANCE}.freshness AS f
COMMENT 'How far the ledger as a whole is in these views, in one row';
