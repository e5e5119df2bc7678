-- The buckets that every sender of one SES account takes from: one atomic step, all of them or none.
--
-- A bucket is the instant at which it will be full again (virtual scheduling; ITU-T I.371's generic cell
-- rate algorithm). Each recipient moves that instant one period on. A take is granted while it lies at
-- most the tolerance ahead of now. All is whole microseconds of this server's clock.
--
-- KEYS  [1]  the account's bucket:  {PREFIX}:account
--       [2..] buckets of recipient domains, each once:  {PREFIX}:domain:NAME
--       PREFIX is "tidegate" unless TIDEGATE_SHARED_BUCKET_PREFIX says otherwise; the braces are part of
--       the key: they keep all of them on one node of a cluster.
-- ARGV  [1]  the fewest recipients of the account that are of use: those of one mail, or 1 to claim
--            as many as there are
--       then three numbers for each key:
--            period     (1 + rate margin) / rate, in microseconds, rounded up
--            tolerance  rate margin / 2, in microseconds, rounded down; of a domain one period of the
--                       account more, since its mail goes at the account's pace as well
--            recipients wanted; of a domain all of them, of the account from the fewest on
-- Answer, four whole numbers:
--       granted    how many of the account's recipients may go now; 0: nothing was taken
--       wait       after how many microseconds to try again; 0 where granted
--       key        which key waits longest, from 1; 0 where granted
--       now        this server's time, in microseconds since the epoch
--
-- There is no way to give back. Needs Redis 5, or Valkey of any version.

local LARGEST_BLOCK = 50 -- recipients; SES takes no mail of more
local SECOND = 1000000

local function whole(text, least)
  local number = tonumber(text)
  if number and number >= least and number <= 9007199254740991 and number % 1 == 0 then
    return number
  end
end

local fewest = whole(ARGV[1], 1)
if #KEYS < 1 or #ARGV ~= 1 + 3 * #KEYS or not fewest then
  return redis.error_reply('TIDEGATE needs the fewest recipients, then a period, a tolerance and recipients for each key')
end

local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]
local granted, longest, slowest = 0, 0, 0
local seen, writes = {}, {}

for index, key in ipairs(KEYS) do
  local period = whole(ARGV[3 * index - 1], 1)
  local tolerance = whole(ARGV[3 * index], 0)
  local wanted = whole(ARGV[3 * index + 1], 1)
  if seen[key] or not (period and tolerance and wanted) or (index == 1 and fewest > wanted) then
    return redis.error_reply('TIDEGATE refuses the numbers of key ' .. index .. ', or had this key before')
  end
  seen[key] = true
  local least = index == 1 and fewest or wanted
  local full = tonumber(string.match(redis.call('GET', key) or '', '^%d+') or 0)
  local wait = full - (now + tolerance)
  if wait > longest then
    longest, slowest = wait, index
  end
  if wait <= 0 then
    -- A mail of many recipients may use the periods before it that nobody used.
    local from = math.max(full, now - (math.min(least, LARGEST_BLOCK) - 1) * period)
    local fit = math.floor((now + tolerance - from) / period) + 1
    local count = math.max(least, math.min(wanted, fit))
    full = from + count * period
    if index == 1 then
      granted = count
    end
    -- Kept until it says nothing any more.
    local kept = math.max(full - now, 0) + math.max((LARGEST_BLOCK - 1) * period, SECOND)
    writes[index] = { string.format('%.0f %.0f %.0f', full, period, tolerance), math.ceil(kept / 1000) }
  end
end

if longest > 0 then
  return { 0, longest, slowest, now }
end
for index, write in ipairs(writes) do
  redis.call('SET', KEYS[index], write[1], 'PX', string.format('%.0f', write[2]))
end
return { granted, 0, 0, now }
