// Lists what an upstream does where its entry says nothing, as written in a route file.

export const UPSTREAM_DEFAULTS = {
  timeout: '30s',
  idleTimeout: '5m',
  connectTimeout: '2s',
  requestBuffer: '64KB',
  healthCheck: { interval: '10s', timeout: '5s', status: '200-399', rise: 1, fall: 2 },
  outlier: { errors: 5, for: '10s' },
  queue: { max: 1024, timeout: '10s' }
} as const
