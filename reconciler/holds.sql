-- One row per hold of the slice that is not in Redis as the log says, or that is open for too long. Each hold as Redis has it is compared with
-- the log up to the position that the shard stood at when it was read; the other parameters are those of accounts.sql.
--   @opened_before, @ended_before   ms since 1970: a hold that was opened, or should have ended, before these is stale
-- A hold that Redis lacks must have been open all the while: open at start, and open at end.
SELECT hold_id, shard,
    max(in_redis) AS present,
    max(read_position) AS position_redis,
    max(redis_remaining) AS remaining_redis,
    if(present, argMaxIf(remaining, position, position > 0 AND position <= read_position), argMax(remaining, position)) AS remaining_log,
    if(max(log_account) != '', max(log_account), max(redis_account)) AS account,
    max(unit_after) AS unit,
    min(at) AS opened_at,
    argMax(expires, position) AS expires_at,
    present AND (remaining_redis != remaining_log OR max(redis_account) != max(log_account) AND max(log_account) != '' OR max(redis_expires) != expires_at)
        OR NOT present AND remaining_log > 0 AND argMaxIf(remaining, position, position <= arrayElement(@starts, shard + 1)) > 0 AS differs,
    argMax(remaining, position) > 0 AND (toUnixTimestamp64Milli(opened_at) < @opened_before OR expires_at > 0 AND expires_at < @ended_before) AS stale
FROM
(
    SELECT if(l.hold_id != '', l.hold_id, s.hold_id) AS hold_id, if(l.hold_id != '', l.shard, s.shard) AS shard,
        l.account AS log_account, l.position AS position, l.remaining AS remaining, l.unit_after AS unit_after, l.at AS at, l.expires AS expires,
        s.hold_id != '' AS in_redis, s.account AS redis_account, s.reading.1 AS redis_remaining, s.reading.2 AS redis_expires, s.reading.3 AS read_position
    FROM
    (
        SELECT e.hold_id AS hold_id, e.shard AS shard, e.account AS account, e.position AS position, any(e.hold_remaining) AS remaining,
            any(toString(e.unit)) AS unit_after, any(e.log_time) AS at, any(ifNull(toUnixTimestamp64Milli(e.hold_expires_at), 0)) AS expires
        FROM events AS e
        WHERE e.hold_id != '' AND e.status = 'applied' AND e.position <= arrayElement(@ends, e.shard + 1) AND e.account >= @lo AND (@hi = '' OR e.account < @hi)
        GROUP BY e.hold_id, e.shard, e.account, e.position
    ) AS l
    FULL OUTER JOIN
    (
        SELECT r.hold_id AS hold_id, r.shard AS shard, argMax(r.account, (r.read_at, r.position)) AS account,
            argMax((r.remaining, r.expires_at, r.position), (r.read_at, r.position)) AS reading
        FROM hold_snapshots AS r
        WHERE r.run_id = @run AND r.account >= @lo AND (@hi = '' OR r.account < @hi) AND toUnixTimestamp64Milli(r.read_at) >= arrayElement(@since, r.shard + 1)
        GROUP BY r.hold_id, r.shard
    ) AS s ON l.hold_id = s.hold_id AND l.shard = s.shard
)
GROUP BY hold_id, shard
HAVING differs OR stale
ORDER BY hold_id
LIMIT @most
