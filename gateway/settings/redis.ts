// Reads the settings of Redis: its address, the prefix of its keys, and the certificates of its connections.
import { readPairs } from './certificate-pair.ts'
import { type Reader, readAuthorities } from './reader.ts'
import { parseRedisUrl, type RedisSettings } from './redis-url.ts'

/** Undefined: requests are counted in memory. */
export const readRedis = (reader: Reader): RedisSettings | undefined => {
  const url = reader.text('REDIS_URL')
  const address = url === undefined ? undefined : parseRedisUrl(url)
  const prefix = reader.matching('REDIS_PREFIX', PREFIX, 'must be 1 to 64 letters, digits and ._:/-') ?? ''
  const usesTls = address !== undefined && 'tls' in address && address.tls
  for (const name of FILES) {
    if (reader.given(name) && !usesTls) reader.mistake(name, 'has no effect without a REDIS_URL of the form rediss…')
  }
  const ca = readAuthorities(reader, 'REDIS_CA_FILE')
  const certificates = { ...(ca === undefined ? {} : { ca }), ...readClientPair(reader) }
  if (address === undefined || !('mistake' in address)) return address && { ...address, prefix, certificates }
  reader.mistake('REDIS_URL', address.mistake)
  return undefined
}

/** A brace would move the hash tag by which a Cluster finds the keys of one window in one slot. */
const PREFIX = /^[\w.:/-]{1,64}$/
const FILES = ['REDIS_CA_FILE', 'REDIS_CERT_FILE', 'REDIS_KEY_FILE'] as const

const readClientPair = (reader: Reader): { readonly cert?: string; readonly key?: string } => {
  const fileOf = (name: (typeof FILES)[number]) => [reader.text(name) ?? []].flat()
  const [first] = readPairs(reader, ['REDIS_CERT_FILE', 'REDIS_KEY_FILE'], fileOf) ?? []
  return first === undefined ? {} : { cert: first.pair.cert, key: first.pair.key }
}
