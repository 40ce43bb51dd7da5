// Suggests the key that an unknown one was probably meant to be: a misspelling, or another gateway's word.
import { nearestHint } from '../../values/spelling.ts'

const OTHERS: Readonly<Record<string, readonly string[]>> = {
  path: ['uri', 'url', 'match', 'location', 'from'],
  upstream: ['backend', 'service', 'target', 'proxy', 'proxyPass', 'to', 'cluster'],
  url: ['address', 'host', 'server', 'uri', 'target'],
  targets: ['hosts', 'servers', 'urls', 'addresses'],
  roles: ['profiles', 'allow', 'groups', 'permissions', 'requiredRoles'],
  profiles: ['roles'],
  methods: ['verbs'],
  public: ['anonymous', 'noAuth', 'skipAuth'],
  stripPrefix: ['prefix', 'stripPath', 'rewrite'],
  rateLimit: ['limit', 'rate', 'throttle'],
  maxBody: ['bodyLimit', 'maxBodySize', 'clientMaxBodySize'],
  requestBuffer: ['requestBuffering', 'proxyRequestBuffering', 'bodyBuffer', 'clientBodyBufferSize'],
  streaming: ['stream', 'unbuffered', 'flushInterval'],
  max: ['limit', 'requests', 'count'],
  window: ['per', 'interval', 'period', 'ttl'],
  by: ['key'],
  websocket: ['ws'],
  socketio: ['io'],
  group: ['dn', 'cn'],
  caFile: ['ca', 'caCert'],
  serverName: ['sni'],
  preserveHost: ['passHost', 'passHostHeader'],
  requestHeaders: ['headers'],
  set: ['add'],
  healthCheck: ['health'],
  rise: ['passes', 'healthyThreshold'],
  fall: ['fails', 'unhealthyThreshold'],
  status: ['expect', 'expectStatus', 'expectedStatuses'],
  outlier: ['outlierDetection', 'passiveHealth', 'maxFails'],
  errors: ['maxFails', 'consecutive5xx'],
  for: ['failTimeout', 'baseEjectionTime'],
  maxConnections: ['maxConns', 'maxConn', 'connectionLimit'],
  queue: ['maxPendingRequests'],
  backup: ['isBackup', 'standby']
}

/** ` (did you mean "x"?)`, or nothing. */
export const keyHint = (key: string, known: readonly string[]): string => {
  const near = nearestHint(key, known)
  if (near !== '') return near
  const plain = key.replace(/[-_]/g, '').toLowerCase()
  const meant = known.find(name => OTHERS[name]?.some(other => other.toLowerCase() === plain))
  return meant === undefined ? '' : ` (did you mean "${meant}"?)`
}
