-- Numbers as text, cheaply: formatting a number costs as much as deciding a command, and successive numbers share their first digits.
local format = string.format

-- '00' to '99', each made when it is first needed.
local two = setmetatable({}, { __index = function(t, n)
    t[n] = format('%02d', n)
    return t[n]
end })

-- The text of a counter in two pieces, to be concatenated; cache belongs to this counter.
local function counted(cache, n)
    if n < 100 then return '', format('%d', n) end
    local last = n % 100
    if cache.hundreds ~= n - last then
        cache.hundreds, cache.text = n - last, format('%d', (n - last) / 100)
    end
    return cache.text, two[last]
end
