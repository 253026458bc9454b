-- Money in two limbs: value = high * 10^4 + low, 0 <= low < 10^4. Every limb is an integer far below 2^53, so all that follows is exact to 18
-- digits, where a single Lua number (a double) is exact to 15. The low limb is what changes most: the text of the high one is kept (text.lua).
local BASE, TOP, SHORT = 10000, 100000000000000, 100000000000 -- SHORT: up to it, both limbs together are exact in one Lua number

-- digits: nothing else, but perhaps a sign.
local function amount(digits)
    local negative = string.byte(digits) == 45
    if negative then digits = string.sub(digits, 2) end
    local high, low
    if #digits < 16 then -- one number is exact; adding 0 makes it, for half of what tonumber costs
        high = digits + 0
        low = high % BASE
        high = (high - low) / BASE
    else
        high, low = tonumber(string.sub(digits, 1, -5)), tonumber(string.sub(digits, -4))
    end
    if not negative then return high, low end
    if low == 0 then return -high, 0 end
    return -high - 1, BASE - low
end

local function plus(high, low, high2, low2)
    high, low = high + high2, low + low2
    if low >= BASE then return high + 1, low - BASE end
    return high, low
end

local function minus(high, low, high2, low2)
    high, low = high - high2, low - low2
    if low < 0 then return high - 1, low + BASE end
    return high, low
end

local function below(high, low, high2, low2)
    return high < high2 or (high == high2 and low < low2)
end

-- At most 18 digits, either sign.
local function in_range(high, low)
    return high < TOP and (high > -TOP or (high == -TOP and low > 0))
end

-- The magnitude of a number, and its sign as text.
local function magnitude(high, low)
    if high >= 0 then return '', high, low end
    if low == 0 then return '-', -high, 0 end
    return '-', -high - 1, BASE - low
end

local function digits(high, low)
    if high > -SHORT and high < SHORT then return string.format('%d', high * BASE + low) end
    local sign, most, least = magnitude(high, low)
    return sign .. string.format('%d%04d', most, least)
end
