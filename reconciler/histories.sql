-- One row per account whose own history contradicts itself, by the events up to @ends, in the order of their sequences.
--   broken     sequences whose balance_after is not the balance before plus the delta, and after which no repair came
--   overspent  what was allowed though it took the account from above its floor to below it: sequence and how far below. What may break
--              the floor (an adjustment, a return, a forced reversal) is left out
-- A checkpoint stands for the events up to its cut, so an incremental run sees the links above it, as a full run does.
SELECT account, shard, any(unit) AS in_unit,
    maxIf(sequence, repair) AS last_repair,
    arraySlice(arrayFilter(s -> s > last_repair, arraySort(groupArrayIf(sequence, link_broken))), 1, 1000) AS broken,
    arraySlice(arraySort(groupArrayIf((sequence, toString(-available)), overspends)), 1, 100) AS overspent
FROM
(
    SELECT account, shard, sequence, repair, unit,
        sum(delta) OVER account_so_far - held_after - floor_after AS available,
        lagInFrame(held_after, 1, 0) OVER account_so_far AS held_before,
        lagInFrame(balance_after, 1, 0) OVER account_so_far AS before,
        balance_after != before + delta AND NOT repair AND NOT checkpointed AS link_broken,
        spends AND available < 0 AND available - delta + held_after - held_before >= 0 AND NOT checkpointed AS overspends
    FROM
    (
        SELECT account, shard, sequence, position, operation = 'repair' AS repair, operation IN ('debit', 'capture', 'hold', 'transfer') AS spends, toString(unit) AS unit,
            toInt128(delta) AS delta, toInt128(balance_after) AS balance_after, toInt128(floor_after) AS floor_after, toInt128(held_after) AS held_after, false AS checkpointed
        FROM events
        WHERE status = 'applied' AND position > arrayElement(@cuts, shard + 1) AND position <= arrayElement(@ends, shard + 1)
            AND account >= @lo AND (@hi = '' OR account < @hi)
        ORDER BY account, sequence, position
        LIMIT 1 BY account, sequence, position
        UNION ALL
        SELECT account, shard, sequence, position, false, false, toString(unit), balance, toInt128(balance_after), toInt128(floor), toInt128(held_after), true
        FROM account_checkpoints WHERE checkpoint = @checkpoint AND account >= @lo AND (@hi = '' OR account < @hi)
    )
    WINDOW account_so_far AS (PARTITION BY account, shard ORDER BY sequence, position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WHERE repair OR link_broken OR overspends
GROUP BY account, shard
HAVING notEmpty(broken) OR notEmpty(overspent)
ORDER BY account
LIMIT @most
