-- +goose NO TRANSACTION

-- +goose Up

-- A run is written when it starts, as could_not_tell, and again when it ends: a run that died says by itself that it could not tell.
-- So the newest version counts: read it with FINAL.
CREATE TABLE IF NOT EXISTS ${LEDGER}.reconciliation_runs
(
    run_id          String                   COMMENT 'Names the run',
    started_at      DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock',
    finished_at     DateTime64(3, 'UTC')     COMMENT '1970 while the run is going on, and for a run that died',
    verdict         Enum8('clean' = 1, 'breaks' = 2, 'could_not_tell' = 3) COMMENT 'clean is only ever said after a full comparison',
    positions       Map(UInt16, UInt64)      COMMENT 'For each shard the position that the run compared at',
    accounts_compared UInt64                   COMMENT 'Accounts that were compared',
    accounts_redis  UInt64                   COMMENT 'Accounts that Redis holds',
    accounts_log    UInt64                   COMMENT 'Accounts that the log knows',
    sums_redis      Map(String, String)      COMMENT 'For each unit the sum of the balances in Redis, minor units, decimal digits (may exceed 64 bits)',
    sums_log        Map(String, String)      COMMENT 'For each unit the sum of the deltas in the log, minor units, decimal digits',
    breaks          UInt64                   COMMENT 'Breaks that the run found',
    repairs         UInt64                   COMMENT 'Compensations that the run issued',
    error           String                   COMMENT 'Why it could not tell; empty otherwise',
    version         UInt64                   COMMENT 'Grows with each write of the run; the newest counts'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY run_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Evidence of every reconciliation run, clean or not. Read with FINAL';

-- HSCAN may return an account twice, and an insert may be repeated: the later reading counts. Read it with FINAL.
-- Bulky and only needed to explain a run, so whole days of it are dropped after a month.
CREATE TABLE IF NOT EXISTS ${LEDGER}.account_snapshots
(
    run_id          String                   COMMENT 'The run that read it' CODEC(ZSTD(1)),
    shard           UInt16                   COMMENT 'The shard it was read from' CODEC(ZSTD(1)),
    account         String                   COMMENT 'The account' CODEC(ZSTD(1)),
    sequence        UInt64                   COMMENT 'The sequence that Redis says' CODEC(T64, ZSTD(1)),
    balance         Int64                    COMMENT 'The balance at that sequence, minor units' CODEC(T64, ZSTD(1)),
    held            Int64                    COMMENT 'Held at that sequence, minor units' CODEC(T64, ZSTD(1)),
    floor           Int64                    COMMENT 'The floor at that sequence, minor units' CODEC(T64, ZSTD(1)),
    ceiling         String                   COMMENT 'The ceiling at that sequence, minor units; empty where there is none' CODEC(ZSTD(1)),
    unit            LowCardinality(String)   COMMENT 'USD/2',
    status          LowCardinality(String)   COMMENT 'active, frozen_debit, frozen_credit, frozen or closed',
    generation      String                   COMMENT 'The shard''s generation in Redis when it was read' CODEC(ZSTD(1)),
    read_at         DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock' CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree(read_at)
PARTITION BY toDate(read_at)
ORDER BY (run_id, shard, account)
TTL toDateTime(read_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'Redis as each reconciliation run saw it. Read with FINAL; kept for 30 days';

CREATE TABLE IF NOT EXISTS ${LEDGER}.breaks
(
    run_id          String                   COMMENT 'The run that found it',
    break_id        String                   COMMENT 'Names the break; the same break found by two runs may have the same id',
    class           LowCardinality(String)   COMMENT 'What kind of difference it is',
    shard           UInt16                   COMMENT 'The shard it is in',
    account         String                   COMMENT 'The account; empty for a break of the log as a whole',
    redis_sequence  Nullable(UInt64)         COMMENT 'NULL where Redis has no such account',
    redis_balance   Nullable(Int64)          COMMENT 'Actual balance, minor units',
    redis_held      Nullable(Int64)          COMMENT 'Actual held, minor units',
    log_sequence    Nullable(UInt64)         COMMENT 'NULL where the log has no such account',
    log_balance     Nullable(Int64)          COMMENT 'Theoretical balance, minor units',
    log_held        Nullable(Int64)          COMMENT 'Theoretical held, minor units',
    unit            LowCardinality(String)   COMMENT 'USD/2; empty where unknown',
    detail          String                   COMMENT 'For a person',
    found_at        DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock'
)
ENGINE = ReplacingMergeTree(found_at)
ORDER BY (run_id, break_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Every difference that a reconciliation run found. Read with FINAL; kept for ever';

-- A compensation is written when it is issued and again when its outcome is known: the later row counts.
CREATE TABLE IF NOT EXISTS ${LEDGER}.compensations
(
    run_id          String                   COMMENT 'The run that issued it',
    break_id        String                   COMMENT 'The break that asked for it',
    command_id      String                   COMMENT 'Derived from the break, so that two runs cannot compensate twice',
    operation       LowCardinality(String)   COMMENT 'repair, reverse or adjust',
    state           Enum8('issued' = 1, 'applied' = 2, 'rejected' = 3, 'unknown' = 4) COMMENT 'unknown: issued, and no outcome was seen in time',
    reason          LowCardinality(String)   COMMENT 'Why it was rejected; empty otherwise',
    shard           UInt16                   COMMENT 'The shard of the account',
    position        UInt64                   COMMENT 'Where its event stands in the log; 0 while unknown',
    at              DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock'
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (run_id, break_id, command_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'What was done about each break. Read with FINAL; kept for ever';
