-- The token buckets of event streams that all consoles of one stack share.
--
-- A bucket is the instant at which it will be full again (virtual scheduling; ITU-T I.371's generic cell
-- rate algorithm). All is whole microseconds of this server's clock. A charge is never refused: what
-- consoles took too much is a debt, which they wait off.
--
-- KEYS  the buckets:  {PREFIX}:console:STACK/BUCKET
-- ARGV  three numbers for each key:
--            charged    the tokens that a console took, as the time in which they come back; 0 only asks
--            full in    how far ahead of now the bucket would be full after this charge alone
--            most       how far ahead of now it is full at most
-- Answer: for each key how far ahead of now it is full; 0 for a full one.

local KEPT = 60000 -- milliseconds for which a full bucket is kept, for charges that are told late

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answer = {}

for index, key in ipairs(KEYS) do
  local charged = tonumber(ARGV[3 * index - 2])
  local alone = now + tonumber(ARGV[3 * index - 1])
  local most = now + tonumber(ARGV[3 * index])
  local stored = tonumber(redis.call('GET', key) or 0)
  local full = math.min(charged > 0 and math.max(stored + charged, alone) or stored, most)
  if full ~= stored then
    local kept = math.ceil(math.max(full - now, 0) / 1000) + KEPT
    redis.call('SET', key, string.format('%.0f', full), 'PX', string.format('%.0f', kept))
  end
  answer[index] = math.max(full - now, 0)
end
return answer
