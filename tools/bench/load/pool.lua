-- Each request takes the next line `path token` of the pool file given as first argument.
local file
local threads = {}
wraps = 0

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  file = assert(io.open(args[1], 'r'))
end

function request()
  local line = file:read('*l')
  if line == nil then
    wraps = wraps + 1
    file:seek('set')
    line = file:read('*l')
  end
  local path, token = line:match('^(%S+) (%S+)$')
  return 'GET ' .. path .. ' HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port
    .. '\r\nAuthorization: Bearer ' .. token .. '\r\n\r\n'
end

function done()
  local total = 0
  for _, thread in ipairs(threads) do
    total = total + thread:get('wraps')
  end
  print('pool-wraps: ' .. total)
end
