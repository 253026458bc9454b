-- One row per account of Redis or of the log, with its class. Arrays hold one element per shard, from shard 0.
--   @run     the run whose reading of Redis is compared
--   @since   per shard: when the reading that counts began, ms since 1970
--   @starts  per shard: Redis's position before the reading
--   @ends    per shard: Redis's position after it, which ClickHouse has reached
--   @lo, @hi the slice: accounts from @lo on, below @hi; an empty @hi is the end
--   @checkpoint, @cuts  an incremental run starts from what a checkpoint says of each account, and adds the events above its cuts;
--            a full run has no checkpoint and cuts of 0
--
-- Why nothing here is a false alarm, however much traffic there is and however far the projector was behind:
--   * An account as Redis has it is the fold of the log up to some position between start and end (snapshot.go, barrier.go), and
--     its sequence says which of its events that contains. So events up to that sequence are summed, later ones are not looked at.
--   * All those events are in ClickHouse, because it has reached end. So a sequence above the log's last one is no lag.
--   * Redis never forgets an account, and a full HSCAN returns every account that is there all the while. So an account whose first
--     event is at or below start must have been returned; one that was opened later need not have been.
--   * What an account had at start it still has when it is read. So its sequence must reach the last one at or below start.
SELECT
    account,
    shard,
    max(in_redis) AS present,
    max(redis_sequence) AS sequence_redis,
    max(redis_balance) AS balance_redis,
    max(redis_held) AS held_redis,
    max(redis_terms) AS terms_redis,
    max(sequence) AS sequence_log,
    maxIf(sequence, position <= arrayElement(@starts, shard + 1)) AS sequence_at_start,
    sum(weight) AS sequences,
    max(places > 1) AS twice,
    minIf(position, weight > 0) AS opened_at,
    sumIf(toInt128(delta), sequence <= redis_sequence) AS balance_at_redis,
    sum(toInt128(delta)) AS balance_log,
    sumIf(toInt128(holding), sequence <= redis_sequence) AS held_at_redis,
    sum(toInt128(holding)) AS held_log,
    -- What an account may do is what the operations say that set it. Other events, and repairs, repeat what Redis said of it.
    (argMinIf(unit_after, sequence, weight > 0), argMaxIf(limits_after, sequence, sets_limits), argMaxIf(status_after, sequence, sets_status)) AS terms_log,
    (terms_log.1, argMaxIf(limits_after, sequence, sets_limits AND sequence <= redis_sequence),
        argMaxIf(status_after, sequence, sets_status AND sequence <= redis_sequence)) AS terms_at_redis,
    maxIf(repaired, repaired <= redis_sequence) AS repaired_at,
    -- The log's sequences of this account are 1 to the last one, each once.
    sequences = sequence_log AND NOT twice AS complete,
    multiIf(
        twice, 'LOG_DUPLICATE',
        sequences > 0 AND NOT present, if(opened_at <= arrayElement(@starts, shard + 1), 'ACCOUNT_MISSING_IN_REDIS', if(complete, 'NOT_YET', 'LOG_GAP')),
        terms_redis.1 = '', 'ACCOUNT_UNREADABLE',
        sequences = 0, 'ACCOUNT_UNKNOWN_TO_LOG',
        NOT complete, 'LOG_GAP',
        sequence_redis > sequence_log, 'REDIS_AHEAD',
        sequence_redis < sequence_at_start, 'REDIS_BEHIND',
        terms_at_redis != terms_redis, 'TERMS_DIFFER',
        balance_at_redis != balance_redis OR held_at_redis != held_redis, 'BALANCE_DIFFERS',
        'AGREES') AS class
FROM
(
    SELECT
        if(l.log_account != '', l.log_account, s.redis_account) AS account,
        if(l.log_account != '', l.log_shard, s.redis_shard) AS shard,
        s.redis_account != '' AS in_redis,
        s.redis_sequence AS redis_sequence, s.redis_balance AS redis_balance, s.redis_held AS redis_held, s.redis_terms AS redis_terms,
        l.sequence AS sequence, l.position AS position, l.places AS places, l.delta AS delta, l.holding AS holding,
        l.unit_after AS unit_after, l.limits_after AS limits_after, l.status_after AS status_after,
        l.sets_limits AS sets_limits, l.sets_status AS sets_status, l.repaired AS repaired, l.weight AS weight
    FROM
    (
        -- Every sequence of an account once, in the order of the table: rows that were inserted twice do not count twice. Where rows
        -- of one sequence differ, which is a break of its own, min makes every query choose alike.
        SELECT
            account AS log_account, shard AS log_shard, sequence,
            min(e.position) AS position,
            uniqExact(e.position) AS places,
            toInt128(min(e.delta)) AS delta,
            toInt128(0) AS holding,
            min(toString(e.unit)) AS unit_after,
            min(concat(toString(e.floor_after), ifNull(concat(':', toString(e.ceiling_after)), ''))) AS limits_after,
            min(toString(e.account_status)) AS status_after,
            max(e.operation IN ('open', 'set_limits')) AS sets_limits,
            max(e.operation IN ('open', 'freeze', 'unfreeze', 'close')) AS sets_status,
            if(max(e.operation = 'repair'), sequence, 0) AS repaired,
            toUInt64(1) AS weight
        FROM events AS e
        WHERE status = 'applied' AND e.position > arrayElement(@cuts, shard + 1) AND e.position <= arrayElement(@ends, shard + 1)
            AND account >= @lo AND (@hi = '' OR account < @hi)
        GROUP BY account, sequence, shard
        UNION ALL
        -- What each event held back or gave back: what is left of its hold, less what was left of it before. Always from the beginning:
        -- a hold may be older than any checkpoint, and few events have one.
        SELECT h.account, h.shard, h.sequence, h.position, 1, toInt128(0),
            toInt128(h.remaining) - lagInFrame(toInt128(h.remaining), 1, toInt128(0)) OVER (
                PARTITION BY h.account, h.shard, h.hold_id ORDER BY h.sequence, h.position ROWS BETWEEN 1 PRECEDING AND CURRENT ROW),
            '', '', '', false, false, 0, 0
        FROM
        (
            SELECT account, shard, sequence, min(e.position) AS position, min(e.hold_id) AS hold_id, min(e.hold_remaining) AS remaining
            FROM events AS e
            WHERE e.hold_id != '' AND status = 'applied' AND e.position <= arrayElement(@ends, shard + 1) AND account >= @lo AND (@hi = '' OR account < @hi)
            GROUP BY account, sequence, shard
        ) AS h
        UNION ALL
        -- A checkpoint stands for all events up to its cut: as many as its sequence, and their sum.
        SELECT c.account, c.shard, c.sequence, c.position, 1, c.balance, toInt128(0), toString(c.unit),
            concat(toString(c.floor), if(c.ceiling = '', '', concat(':', c.ceiling))), toString(c.status), true, true, c.repaired_at, c.sequence
        FROM account_checkpoints AS c
        WHERE c.checkpoint = @checkpoint AND c.account >= @lo AND (@hi = '' OR c.account < @hi)
    ) AS l
    FULL OUTER JOIN
    (
        -- HSCAN may return an account twice; each reading is right at its own sequence, and one of them is taken whole.
        SELECT
            r.account AS redis_account, r.shard AS redis_shard,
            argMax((r.sequence, r.balance, r.held, toString(r.unit), concat(toString(r.floor), if(r.ceiling = '', '', concat(':', r.ceiling))), toString(r.status)),
                (r.read_at, r.sequence)) AS reading,
            reading.1 AS redis_sequence, reading.2 AS redis_balance, reading.3 AS redis_held, (reading.4, reading.5, reading.6) AS redis_terms
        FROM account_snapshots AS r
        WHERE run_id = @run AND r.account >= @lo AND (@hi = '' OR r.account < @hi) AND toUnixTimestamp64Milli(r.read_at) >= arrayElement(@since, r.shard + 1)
        GROUP BY r.account, r.shard
    ) AS s ON l.log_account = s.redis_account AND l.log_shard = s.redis_shard
)
GROUP BY account, shard
