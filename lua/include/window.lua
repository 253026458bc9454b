-- How outcomes are forgotten: two buckets, and a turn that drops the older one. It is a step of the script, never a timer. Of the head:
--   turned      when the recent bucket was begun, ms           begun       "position chain" at that moment
--   horizon     when the bucket dropped last was closed, ms    forgotten   "position chain" at that moment: what came later is remembered

-- How far the clocks of callers and writers may be apart, ms.
local SKEW = 600000

-- Whether a command first asked for at a time may have an outcome that is forgotten.
local function may_be_forgotten(asked, horizon, forgotten)
    return string.sub(forgotten, 1, 2) ~= '0 ' and tonumber(asked) < tonumber(horizon) + SKEW
end

-- Whether a look-up in a ClickHouse that was complete through one head has seen all that is forgotten.
local function looked_up(through, forgotten)
    local complete, needed = string.match(through, '^(%d+) '), string.match(forgotten, '^(%d+) ')
    return through == forgotten or (complete and tonumber(complete) > tonumber(needed))
end

-- Drops the old bucket and begins a new recent one, if the window has passed since the last turn.
local function turn(at, clock, turned, begun)
    if window == '0' or tonumber(clock) - tonumber(turned) < tonumber(window) then return false end
    redis.call('UNLINK', OLD)
    redis.call('RENAME', RECENT, OLD)
    redis.call('HSET', HEAD, 'horizon', turned, 'forgotten', begun, 'turned', clock, 'begun', at)
    return true
end
