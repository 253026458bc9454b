-- +goose NO TRANSACTION

-- +goose Up

ALTER TABLE ${LEDGER}.reconciliation_runs
    ADD COLUMN IF NOT EXISTS business_date  Nullable(Date)         COMMENT 'The day that the run closes; NULL for a run of no day',
    ADD COLUMN IF NOT EXISTS mode           LowCardinality(String) COMMENT 'full: from the beginning of the log; incremental: from what earlier runs verified',
    ADD COLUMN IF NOT EXISTS dry_run        Bool                   COMMENT 'Nothing was issued',
    ADD COLUMN IF NOT EXISTS policy_version String                 COMMENT 'The policy that was in force, as it names itself',
    ADD COLUMN IF NOT EXISTS policy_hash    String                 COMMENT 'SHA-256 of the policy''s text',
    ADD COLUMN IF NOT EXISTS events         UInt64                 COMMENT 'Positions of the log up to which was compared, all shards together',
    ADD COLUMN IF NOT EXISTS events_read    UInt64                 COMMENT 'Events whose chain and content were recomputed in this run',
    ADD COLUMN IF NOT EXISTS chains         Map(UInt16, String)    COMMENT 'For each shard the chain at its position, hexadecimal: the hash of everything before',
    ADD COLUMN IF NOT EXISTS held           String                 COMMENT 'Why repairs were held back altogether; empty otherwise',
    ADD COLUMN IF NOT EXISTS report         String                 COMMENT 'The whole report as JSON; empty while the run goes on' CODEC(ZSTD(3));

ALTER TABLE ${LEDGER}.breaks
    ADD COLUMN IF NOT EXISTS severity    LowCardinality(String) COMMENT 'info, medium, high or critical: the worst of class, amount and age',
    ADD COLUMN IF NOT EXISTS action      LowCardinality(String) COMMENT 'wait, repair, reversal, adjustment or stop',
    ADD COLUMN IF NOT EXISTS amount      String                 COMMENT 'What is at stake, signed minor units, decimal digits (may exceed 64 bits); empty where it is not about an amount',
    ADD COLUMN IF NOT EXISTS first_seen  DateTime64(3, 'UTC')   COMMENT 'When the first run found it',
    ADD COLUMN IF NOT EXISTS settled     String                 COMMENT 'Why it needs nobody any more; empty while it does';

-- What people decided about a break. Only ever added to; a break is named by its evidence, so other evidence is another break and
-- carries no decision.
CREATE TABLE IF NOT EXISTS ${LEDGER}.break_decisions
(
    break_id        String                   COMMENT 'The break',
    decision        LowCardinality(String)   COMMENT 'proposed, approved, rejected or accepted',
    decided_by      String                   COMMENT 'Who, as they called themselves',
    note            String                   COMMENT 'Why',
    action          LowCardinality(String)   COMMENT 'repair, reversal or adjustment',
    account         String                   COMMENT 'The account that an adjustment books on',
    amount          String                   COMMENT 'Signed minor units that an adjustment books on the account; empty otherwise',
    unit            LowCardinality(String)   COMMENT 'USD/2',
    expires_at      DateTime64(3, 'UTC')     COMMENT 'From then on the decision counts no more',
    at              DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock',
    database_user   String DEFAULT currentUser() COMMENT 'Who, as ClickHouse knows them'
)
ENGINE = MergeTree
ORDER BY (break_id, at)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Proposals, approvals, rejections and acceptances of breaks; kept for ever';

-- How far each shard of the log was read in Kafka and found whole. The newest one of a shard counts.
CREATE TABLE IF NOT EXISTS ${LEDGER}.log_marks
(
    shard           UInt16                   COMMENT 'The shard',
    run_id          String                   COMMENT 'The run that read it',
    position        UInt64                   COMMENT 'Everything up to here is verified',
    chain           String                   COMMENT 'The chain there, hexadecimal',
    next_offset     Int64                    COMMENT 'The first offset in Kafka that is not',
    at              DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock'
)
ENGINE = ReplacingMergeTree(at)
ORDER BY shard
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Where an incremental run goes on. Read with FINAL';

-- A run compares the accounts slice by slice; a run that was stopped goes on after the slices that are here.
CREATE TABLE IF NOT EXISTS ${LEDGER}.reconciliation_slices
(
    run_id          String                   COMMENT 'The run',
    slice           UInt32                   COMMENT 'Number of the slice; accounts in byte order',
    result          String                   COMMENT 'What it added up to, and what differed, as JSON' CODEC(ZSTD(1)),
    at              DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock'
)
ENGINE = ReplacingMergeTree(at)
PARTITION BY toDate(at)
ORDER BY (run_id, slice)
TTL toDateTime(at) + INTERVAL 7 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'Finished slices of runs. Read with FINAL; kept for 7 days';

-- Each account as the log said at a cut; the events above it are added to it. The newest complete cut counts.
CREATE TABLE IF NOT EXISTS ${LEDGER}.account_checkpoints
(
    checkpoint      String                   COMMENT 'The run that made it',
    account         String                   COMMENT 'The account' CODEC(ZSTD(1)),
    shard           UInt16                   COMMENT 'Its shard' CODEC(ZSTD(1)),
    sequence        UInt64                   COMMENT 'Its last sequence at the cut' CODEC(T64, ZSTD(1)),
    position        UInt64                   COMMENT 'The position of its opening' CODEC(T64, ZSTD(1)),
    balance         Int128                   COMMENT 'The sum of its deltas, minor units' CODEC(ZSTD(1)),
    balance_after   Int64                    COMMENT 'The balance that its last event says, minor units; another one only if balances were wrong for a time' CODEC(T64, ZSTD(1)),
    held_after      Int64                    COMMENT 'What its last event says is held, minor units' CODEC(T64, ZSTD(1)),
    floor           Int64                    COMMENT 'The floor that was set last' CODEC(T64, ZSTD(1)),
    ceiling         String                   COMMENT 'The ceiling that was set last; empty for none' CODEC(ZSTD(1)),
    status          LowCardinality(String)   COMMENT 'The status that was set last',
    unit            LowCardinality(String)   COMMENT 'The unit it was opened with',
    repaired_at     UInt64                   COMMENT 'The sequence of its last repair; 0 for none' CODEC(T64, ZSTD(1)),
    at              DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock' CODEC(Delta(8), ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY checkpoint
ORDER BY account
COMMENT 'Balances at a cut of the log, from which incremental runs go on';

CREATE TABLE IF NOT EXISTS ${LEDGER}.checkpoint_cuts
(
    checkpoint      String                   COMMENT 'The run that made it',
    cuts            Map(UInt16, UInt64)      COMMENT 'For each shard the position of the cut',
    at              DateTime64(3, 'UTC')     COMMENT 'When it was complete'
)
ENGINE = MergeTree
ORDER BY at
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'The complete checkpoints';

-- Every open hold as a run saw it, with the position of the shard at that moment. Bulky like account_snapshots, and dropped with them.
CREATE TABLE IF NOT EXISTS ${LEDGER}.hold_snapshots
(
    run_id          String                   COMMENT 'The run that read it' CODEC(ZSTD(1)),
    shard           UInt16                   COMMENT 'The shard it was read from' CODEC(ZSTD(1)),
    hold_id         String                   COMMENT 'The command that opened the hold' CODEC(ZSTD(1)),
    account         String                   COMMENT 'The account that Redis says it is on' CODEC(ZSTD(1)),
    remaining       Int64                    COMMENT 'What Redis says is left of it, minor units' CODEC(T64, ZSTD(1)),
    expires_at      Int64                    COMMENT 'When Redis says it ends by itself, ms since 1970; 0 for never' CODEC(T64, ZSTD(1)),
    position        UInt64                   COMMENT 'The position that the shard stood at when it was read' CODEC(Delta(8), ZSTD(1)),
    read_at         DateTime64(3, 'UTC')     COMMENT 'The reconciler''s clock' CODEC(Delta(8), ZSTD(1))
)
ENGINE = ReplacingMergeTree(read_at)
PARTITION BY toDate(read_at)
ORDER BY (run_id, shard, hold_id)
TTL toDateTime(read_at) + INTERVAL 30 DAY
SETTINGS ttl_only_drop_parts = 1
COMMENT 'Open holds as each reconciliation run saw them; kept for 30 days';
