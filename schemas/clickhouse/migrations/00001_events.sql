-- +goose NO TRANSACTION
-- Every statement of every migration may run twice: two processes may start at the same time, and ClickHouse has no lock for them.

-- +goose Up

-- The log, one row per event, as the projector writes it. Plain MergeTree: a duplicate or a conflict stays visible to the
-- audit instead of vanishing in a merge. Exactly-once comes from the insert's deduplication token, hence the window.
CREATE TABLE IF NOT EXISTS ${LEDGER}.events
(
    account         String                  COMMENT 'The controlled account that the command names' CODEC(ZSTD(1)),
    sequence        UInt64                  COMMENT 'Gap-free per account from 1; 0 where rejected' CODEC(DoubleDelta, ZSTD(1)),
    shard           UInt16                  COMMENT 'Kafka partition of ledger.events' CODEC(ZSTD(1)),
    position        UInt64                  COMMENT 'Gap-free per shard from 1' CODEC(Delta(8), ZSTD(1)),
    log_offset      UInt64                  COMMENT 'Kafka offset; has holes' CODEC(Delta(8), ZSTD(1)),
    log_time        DateTime64(3, 'UTC')    COMMENT 'The broker''s clock when the event was appended' CODEC(Delta(8), ZSTD(1)),
    decided_at      DateTime64(3, 'UTC')    COMMENT 'The writer''s clock when it decided' CODEC(Delta(8), ZSTD(1)),
    effective_at    DateTime64(3, 'UTC')    COMMENT 'When the business says it happened; decided_at where it does not say' CODEC(Delta(8), ZSTD(1)),
    business_date   Date                    COMMENT 'The ledger''s day that it counts for, by the writer''s time zone and cutoff' CODEC(Delta(2), ZSTD(1)),
    command_id      String                  COMMENT 'Chosen by the caller; one id has one outcome' CODEC(ZSTD(1)),
    operation       Enum8('unknown' = 0, 'open' = 1, 'debit' = 2, 'credit' = 3, 'repair' = 4, 'hold' = 5, 'capture' = 6, 'release' = 7,
                        'transfer' = 8, 'reverse' = 9, 'set_limits' = 10, 'freeze' = 11, 'unfreeze' = 12, 'close' = 13, 'adjust' = 14, 'return' = 15) COMMENT 'What the command asked for' CODEC(ZSTD(1)),
    status          Enum8('applied' = 1, 'rejected' = 2) COMMENT 'What became of it' CODEC(ZSTD(1)),
    reason          LowCardinality(String)  COMMENT 'Why it was rejected; empty where applied',
    counter_account String                  COMMENT 'Applied: the other side of what was booked, empty where nothing was, or several sides (legs). Rejected: what was asked for' CODEC(ZSTD(1)),
    legs            Array(Tuple(counter_account String, amount Int64)) COMMENT 'Every other side with its part of the amount, not signed; empty where all of it went to @world, or nothing was booked' CODEC(ZSTD(1)),
    unit            LowCardinality(String)  COMMENT 'Currency or custom unit with its exponent, USD/2; empty where unknown',
    delta           Int64                   COMMENT 'Signed change of the balance in minor units' CODEC(T64, ZSTD(1)),
    balance_after   Int64                   COMMENT 'Balance after it in minor units, as Redis said; 0 where there is no account' CODEC(T64, ZSTD(1)),
    held_after      Int64                   COMMENT 'Held after it in minor units' CODEC(T64, ZSTD(1)),
    floor_after     Int64                   COMMENT 'Floor after it in minor units' CODEC(T64, ZSTD(1)),
    ceiling_after   Nullable(Int64)         COMMENT 'Highest balance allowed after it in minor units; NULL where there is none' CODEC(T64, ZSTD(1)),
    sequence_after  UInt64                  COMMENT 'Sequence of the account after it, also where rejected; 0 where there is no account' CODEC(T64, ZSTD(1)),
    account_status  LowCardinality(String)  COMMENT 'Status of the account after it; empty where there is no account',
    hold_id         String                  COMMENT 'The hold that it opened, captured or released; empty for all else' CODEC(ZSTD(1)),
    hold_remaining  Int64                   COMMENT 'What is left of that hold in minor units; 0: it is gone' CODEC(T64, ZSTD(1)),
    hold_expires_at Nullable(DateTime64(3, 'UTC')) COMMENT 'When that hold ends by itself; NULL where it does not' CODEC(Delta(8), ZSTD(1)),
    hold_counter_account String             COMMENT 'Where a capture of that hold goes that does not say; empty means @world' CODEC(ZSTD(1)),
    reversed_command_id String              COMMENT 'The command that it reversed, as the ledger remembers it; empty for all else' CODEC(ZSTD(1)),
    reversed_total  Int64                   COMMENT 'All that was reversed of that command so far, in minor units' CODEC(T64, ZSTD(1)),
    transfer_account String                 COMMENT 'Far end of a transfer, and its reversal: the account that the amount came from; empty for all else' CODEC(ZSTD(1)),
    transfer_to     String                  COMMENT 'Near end of a transfer: the controlled account that the amount goes to; empty for all else' CODEC(ZSTD(1)),
    asked_amount    Int64                   COMMENT 'The amount that a rejected command asked for, in minor units; 0 where it named none that can be read, and where applied' CODEC(T64, ZSTD(1)),
    reference       String                  COMMENT 'The caller''s own reference' CODEC(ZSTD(1)),
    description     String                  COMMENT 'The caller''s text' CODEC(ZSTD(1)),
    metadata        Map(String, String)     COMMENT 'The caller''s metadata' CODEC(ZSTD(1)),
    source          LowCardinality(String)  COMMENT 'The service that asked',
    fingerprint     FixedString(16)         COMMENT 'Hash of the payload that a repeated command id is compared with' CODEC(NONE),
    chain           FixedString(20)         COMMENT 'Hash chain over the shard''s log up to this event' CODEC(NONE),
    head            FixedString(20)         COMMENT 'Where a call of the ledger left Redis: on its last event alone, else zeros' CODEC(ZSTD(1)),
    batch_to        UInt64                  COMMENT 'Last position of the insert that brought the row; forensics' CODEC(Delta(8), ZSTD(1)),
    ingested_at     DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') COMMENT 'ClickHouse''s clock when the row was inserted' CODEC(Delta(8), ZSTD(1)),

    CONSTRAINT position_from_1 CHECK position > 0,
    INDEX command_id_bloom command_id TYPE bloom_filter(0.01) GRANULARITY 4,
    -- The id that the caller chose, behind the prefix of those that the ledger derives from it: as the finance views spell it.
    INDEX transaction_id_bloom if(startsWith(command_id, '@'), substring(command_id, position(command_id, '/') + 1), command_id) TYPE bloom_filter(0.01) GRANULARITY 4,
    -- An account's rows are in the order of the log, so a period of a hot account is a few granules.
    INDEX log_time_minmax log_time TYPE minmax GRANULARITY 1,
    INDEX business_date_minmax business_date TYPE minmax GRANULARITY 1,
    -- Lives inside the part, so it is exactly as far as the rows are: the projector's watermark and the freshness view read it in milliseconds.
    PROJECTION watermark
    (
        SELECT shard, count(), min(position), max(position), sum(toInt128(position)), max(log_offset), max(log_time), max(ingested_at), sum(toInt128(delta))
        GROUP BY shard
    )
)
ENGINE = MergeTree
-- The broker's clock only grows within a shard, so an old business date cannot reopen an old month.
PARTITION BY toYYYYMM(log_time)
ORDER BY (account, sequence, position)
SETTINGS non_replicated_deduplication_window = 100000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'The log: one row per event. Read it through events_once or the finance views';

-- What every reader counts: an event that was inserted twice is there once. An account lives in one shard, so account, sequence and
-- position name an event. This is the table's own order; with the ORDER BY said aloud the de-duplication streams over it in
-- constant memory (without it, ClickHouse keeps a hash of every key). ClickHouse filters before a LIMIT BY only by its keys: hence the two
-- times and the id among them, which are the same in every copy of an event, so that a period and an id reach their indexes as an account does.
-- Two different events at one place are a break of the log, not a duplicate.
CREATE OR REPLACE VIEW ${LEDGER}.events_once AS
SELECT * FROM ${LEDGER}.events
ORDER BY account, sequence, position, log_time, business_date, command_id
LIMIT 1 BY account, sequence, position, log_time, business_date, command_id
COMMENT 'ledger.events without the rows that were inserted twice';
