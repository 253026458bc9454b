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
    if(l.account != '', l.account, r.account) AS account,
    if(l.account != '', l.shard, r.shard) AS shard,
    r.account != '' AS present,
    r.sequence AS sequence_redis, r.balance AS balance_redis, r.held AS held_redis,
    (toString(r.unit), concat(toString(r.floor), if(r.ceiling = '', '', concat(':', r.ceiling))), toString(r.status)) AS terms_redis,
    l.last_sequence AS sequence_log, l.sequence_at_start AS sequence_at_start, l.sequences AS sequences,
    l.balance_at_redis AS balance_at_redis, l.balance_log AS balance_log, l.held_at_redis AS held_at_redis, l.held_log AS held_log,
    (l.unit_log, if(l.limits.1, concat(toString(l.limits.2), ifNull(concat(':', toString(l.limits.3)), '')), ''), l.status) AS terms_log,
    (l.unit_log, if(l.limits_there.1, concat(toString(l.limits_there.2), ifNull(concat(':', toString(l.limits_there.3)), '')), ''), l.status_there) AS terms_at_redis,
    l.repaired_at AS repaired_at,
    -- The log's sequences of this account are 1 to the last one, each once.
    sequences = sequence_log AND NOT l.twice AS complete,
    multiIf(
        l.twice, 'LOG_DUPLICATE',
        sequences > 0 AND NOT present, if(l.opened_at <= arrayElement(@starts, shard + 1), 'ACCOUNT_MISSING_IN_REDIS', if(complete, 'NOT_YET', 'LOG_GAP')),
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
    -- What the log adds up to, at its end and at the sequence that Redis stands at.
    SELECT
        account,
        shard,
        max(sequence) AS last_sequence,
        maxIf(sequence, position <= arrayElement(@starts, shard + 1)) AS sequence_at_start,
        sum(weight) AS sequences,
        max(again) AS twice,
        minIf(position, weight > 0) AS opened_at,
        sumIf(toInt128(delta), weight > 0 AND sequence <= redis_sequence) AS balance_at_redis,
        sumIf(toInt128(delta), weight > 0) AS balance_log,
        sumIf(holding, sequence <= redis_sequence) AS held_at_redis,
        sum(holding) AS held_log,
        -- What an account may do is what the operations say that set it. Other events, and repairs, repeat what Redis said of it.
        toString(argMinIf(unit_after, sequence, weight > 0)) AS unit_log,
        argMaxIf((true, floor, ceiling), sequence, sets_limits) AS limits,
        argMaxIf((true, floor, ceiling), sequence, sets_limits AND sequence <= redis_sequence) AS limits_there,
        toString(argMaxIf(status_after, sequence, sets_status)) AS status,
        toString(argMaxIf(status_after, sequence, sets_status AND sequence <= redis_sequence)) AS status_there,
        maxIf(repaired, repaired <= redis_sequence) AS repaired_at
    FROM
    (
        -- Every sequence of an account counts once, at the first of its rows: rows that were inserted twice do not count twice. A sequence at two
        -- positions is a break of its own.
        SELECT account, shard, sequence, position, delta, toInt128(0) AS holding, unit AS unit_after, floor_after AS floor, ceiling_after AS ceiling,
            account_status AS status_after, operation IN ('open', 'set_limits') AS sets_limits, operation IN ('open', 'freeze', 'unfreeze', 'close') AS sets_status,
            if(operation = 'repair', sequence, 0) AS repaired,
            toUInt64(NOT (sequence = before_sequence AND shard = before_shard)) AS weight,
            weight = 0 AND position != before_position AS again
        FROM
        (
            SELECT account, shard, sequence, position, toInt128(delta) AS delta, unit, floor_after, ceiling_after, account_status, operation,
                lagInFrame(sequence) OVER one_before AS before_sequence, lagInFrame(shard) OVER one_before AS before_shard, lagInFrame(position) OVER one_before AS before_position
            FROM events
            WHERE status = 'applied' AND position > arrayElement(@cuts, shard + 1) AND position <= arrayElement(@ends, shard + 1)
                AND account >= @lo AND (@hi = '' OR account < @hi)
            WINDOW one_before AS (PARTITION BY account ORDER BY sequence, delta, position ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
        )
        UNION ALL
        -- What each event held back or gave back: what is left of its hold, less what was left of it before. Always from the beginning:
        -- a hold may be older than any checkpoint, and few events have one.
        SELECT h.account, h.shard, h.sequence, h.position, toInt128(0),
            toInt128(h.remaining) - lagInFrame(toInt128(h.remaining), 1, toInt128(0)) OVER (
                PARTITION BY h.account, h.shard, h.hold_id ORDER BY h.sequence, h.position ROWS BETWEEN 1 PRECEDING AND CURRENT ROW),
            '', 0, NULL, '', false, false, 0, 0, false
        FROM
        (
            SELECT account, shard, sequence, min(e.position) AS position, min(e.hold_id) AS hold_id, min(e.hold_remaining) AS remaining
            FROM events AS e
            WHERE e.hold_id != '' AND status = 'applied' AND e.position <= arrayElement(@ends, shard + 1) AND account >= @lo AND (@hi = '' OR account < @hi)
            GROUP BY account, sequence, shard
        ) AS h
        UNION ALL
        -- A checkpoint stands for all events up to its cut: as many as its sequence, and their sum.
        SELECT c.account, c.shard, c.sequence, c.position, c.balance, toInt128(0), c.unit, c.floor, toInt64OrNull(c.ceiling), c.status, true, true, c.repaired_at, c.sequence, false
        FROM account_checkpoints AS c
        WHERE c.checkpoint = @checkpoint AND c.account >= @lo AND (@hi = '' OR c.account < @hi)
    ) AS e
    ANY LEFT JOIN
    (
        SELECT account, shard, sequence AS redis_sequence
        FROM account_snapshots
        WHERE run_id = @run AND account >= @lo AND (@hi = '' OR account < @hi) AND toUnixTimestamp64Milli(read_at) >= arrayElement(@since, shard + 1)
        ORDER BY shard, account, read_at DESC, sequence DESC
        LIMIT 1 BY shard, account
    ) AS seen USING (account, shard)
    GROUP BY account, shard
) AS l
FULL OUTER JOIN
(
    -- HSCAN may return an account twice; each reading is right at its own sequence, and one of them is taken whole.
    SELECT account, shard, sequence, balance, held, unit, floor, ceiling, status
    FROM account_snapshots
    WHERE run_id = @run AND account >= @lo AND (@hi = '' OR account < @hi) AND toUnixTimestamp64Milli(read_at) >= arrayElement(@since, shard + 1)
    ORDER BY shard, account, read_at DESC, sequence DESC
    LIMIT 1 BY shard, account
) AS r ON l.account = r.account AND l.shard = r.shard
