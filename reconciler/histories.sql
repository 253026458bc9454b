-- One row per account whose own history contradicts itself, by the events up to @ends, in the order of their sequences.
--   broken     sequences whose balance_after is not the balance before plus the delta, and after which no repair came
--   overspent  debits that took the sum of the deltas from above the floor to below it: sequence and how far below
-- A checkpoint stands for the events up to its cut, so an incremental run sees the links above it.
SELECT account, shard, any(unit) AS in_unit,
    maxIf(sequence, operation = 'repair') AS last_repair,
    arraySlice(arraySort(groupArrayIf(sequence, link_broken AND NOT checkpointed)), 1, 1000) AS broken_links,
    arrayFilter(s -> s > last_repair, broken_links) AS broken,
    arraySlice(arraySort(groupArrayIf((sequence, toString(floor_after + held_after - running)), overspends)), 1, 100) AS overspent
FROM
(
    SELECT account, shard, sequence, operation, checkpointed, toString(unit) AS unit, floor_after, held_after,
        sum(toInt128(delta)) OVER (PARTITION BY account, shard ORDER BY sequence, position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running,
        lagInFrame(balance_after, 1, toInt128(0)) OVER (PARTITION BY account, shard ORDER BY sequence, position ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before,
        operation != 'repair' AND balance_after != before + delta AS link_broken,
        delta < 0 AND running - held_after < floor_after AND running - delta - held_after >= floor_after AND NOT checkpointed AS overspends
    FROM
    (
        SELECT account, shard, sequence, position, toString(operation) AS operation, unit, toInt128(delta) AS delta, toInt128(balance_after) AS balance_after,
            toInt128(floor_after) AS floor_after, toInt128(held_after) AS held_after, false AS checkpointed
        FROM events
        WHERE status = 'applied' AND position > arrayElement(@cuts, shard + 1) AND position <= arrayElement(@ends, shard + 1)
            AND account >= @lo AND (@hi = '' OR account < @hi)
        LIMIT 1 BY account, sequence, position
        UNION ALL
        SELECT account, shard, sequence, position, 'open', unit, balance, balance, toInt128(floor), toInt128(0), true
        FROM account_checkpoints WHERE checkpoint = @checkpoint AND account >= @lo AND (@hi = '' OR account < @hi)
    )
)
GROUP BY account, shard
HAVING notEmpty(broken) OR notEmpty(overspent)
ORDER BY account
LIMIT @most
