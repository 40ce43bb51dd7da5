// Says what is wrong with an HTTP/2 request, and what it means, by RFC 9113 §8 and nothing else.
import { canonicalPath } from '../../../gateway/routes/canonical-path.ts'
import { type Field, TOKEN, valuesOf } from '../readings/http-lines.ts'
import type { StrictRequest } from '../strict-upstream.ts'
import type { Message } from './messages.ts'

const PSEUDO = new Set([':method', ':scheme', ':authority', ':path'])
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)(?::\d*)?$/

/** §8.2.1, and RFC 9110 §5.1, §5.5: what cannot be in a field of any version is malformed here. */
export const fieldFaults = ([name, value]: Field): string[] => {
  const faults: string[] = []
  const bare = name.replace(/^:/, '')
  if (/[\0-\x20\x7f-\xff]/.test(bare)) faults.push('a character that no name has')
  else if (!TOKEN.test(bare)) faults.push('a name that is no token')
  else if (/[A-Z]/.test(bare)) faults.push('upper case in a name')
  if (/[\0\r\n]/.test(value)) faults.push('a line break or NUL in a value')
  else if (/[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(value)) faults.push('another control character in a value')
  if (/^[ \t]|[ \t]$/.test(value)) faults.push('a blank at an end of a value')
  // §8.2.2
  if (/^(?:connection|keep-alive|proxy-connection|transfer-encoding|upgrade)$/.test(name))
    faults.push('a field of connections')
  if (name === 'te' && value.toLowerCase() !== 'trailers') faults.push('te')
  return faults
}

/** §8.3, §8.3.1 */
const pseudoFaults = (fields: readonly Field[]): string[] => {
  const faults: string[] = []
  const names = fields.map(([name]) => name)
  const pseudo = names.filter(name => name.startsWith(':'))
  if (names.slice(names.findIndex(name => !name.startsWith(':'))).some(name => name.startsWith(':')))
    faults.push('a pseudo-field behind fields')
  if (pseudo.some(name => !PSEUDO.has(name))) faults.push('an unknown pseudo-field')
  if (new Set(pseudo).size < pseudo.length) faults.push('a pseudo-field twice')
  for (const name of [':method', ':scheme', ':path']) if (!pseudo.includes(name)) faults.push('a missing pseudo-field')
  const [method, path, scheme] = [':method', ':path', ':scheme'].map(name => valuesOf(fields, name)[0])
  if (method !== undefined && !TOKEN.test(method)) faults.push('a method that is no token')
  if (method === 'CONNECT') faults.push('CONNECT')
  if (path !== undefined && !/^(?:\/[!-"$-\xff]*|\*)$/.test(path)) faults.push('no path')
  if (path === '*' && method !== 'OPTIONS') faults.push('an asterisk without OPTIONS')
  if (scheme !== undefined && !/^[A-Za-z][\w+.-]*$/.test(scheme)) faults.push('no scheme')
  return faults
}

/** RFC 3986 §6.2: in lower case, without the default port of https. */
const normalHost = (host: string): string => host.toLowerCase().replace(/:443$/, '')

const hostFaults = (fields: readonly Field[]): string[] => {
  const authorities = valuesOf(fields, ':authority')
  const hosts = valuesOf(fields, 'host')
  const all = [...authorities, ...hosts]
  if (all.length === 0) return ['no host']
  if (hosts.length > 1) return ['two hosts']
  if (all.some(host => !HOST.test(host))) return ['a malformed host']
  return new Set(all.map(normalHost)).size > 1 ? ['a host beside another authority'] : []
}

/** §8.1.1 */
const lengthFaults = ({ fields, body, end }: Message): string[] => {
  const lengths = valuesOf(fields, 'content-length')
  if (lengths.length > 1) return ['more than one content-length']
  if (lengths.length === 0) return []
  if (!/^\d+$/.test(lengths[0] ?? '')) return ['a malformed content-length']
  if (end === 'headers') return Number(lengths[0]) === 0 ? [] : ['a content-length without a body']
  return Number(lengths[0]) <= body.join('').length ? [] : ['a content-length beyond the body']
}

/** §8.1, §5.4.2 */
export const lateFaults = ({ fields, body, trailers, end }: Message): string[] => {
  if (end === 'reset') return ['a reset']
  const length = Number(valuesOf(fields, 'content-length')[0] ?? Number.POSITIVE_INFINITY)
  if (body.join('').length > length) return ['a body beyond its content-length']
  const faults = trailers.flatMap(fieldFaults).map(fault => `${fault}, in trailers`)
  return trailers.some(([name]) => name.startsWith(':')) ? [...faults, 'a pseudo-field in trailers'] : faults
}

/** Why a server must not take it; empty: it is well-formed. */
export const faultsOf = (message: Message): string[] => {
  const { fields } = message
  const faults = [
    ...fields.flatMap(fieldFaults),
    ...pseudoFaults(fields),
    ...hostFaults(fields),
    ...lengthFaults(message)
  ]
  // Behind a body of a known length both come too late to be noticed.
  if (valuesOf(fields, 'content-length').length === 0) faults.push(...lateFaults(message))
  return [...new Set(faults)]
}

const OWN = /^(?::.*|host|te|expect|content-length|transfer-encoding|connection|keep-alive)$/
/** Only the gateway may say them. */
const IDENTITY = /^x[^a-z0-9]user[^a-z0-9]/
const ADDED = /^(?:x-forwarded-\w+|x-request-id|x-real-ip|x-portaria-\w+|traceparent)$/

/** Values by name, those of one name joined (RFC 9110 §5.3, RFC 9113 §8.2.3), without those that each connection has its own of. */
const joined = (fields: readonly Field[]): ReadonlyMap<string, string> => {
  const values = new Map<string, string>()
  for (const [sent, value] of fields) {
    const name = sent.toLowerCase()
    if (OWN.test(name)) continue
    const before = values.get(name)
    values.set(name, before === undefined ? value : `${before}${name === 'cookie' ? ';' : ', '}${value}`)
  }
  const cookie = values.get('cookie')
  if (cookie !== undefined)
    values.set(
      'cookie',
      cookie
        .split(/[ \t]*;[ \t]*/)
        .filter(Boolean)
        .join('; ')
    )
  return values
}

const targetOf = (target: string): string => {
  const [path = '', ...query] = target.split('?')
  return [canonicalPath(path).path, ...query].join('?')
}

/** What arrived in another meaning than was sent, however it is framed; undefined: all is the same. */
export const differenceIn = (message: Message, received: StrictRequest): string | undefined => {
  const [method, target = '', authority] = [':method', ':path', ':authority'].map(
    name => valuesOf(message.fields, name)[0]
  )
  if (received.method !== method) return 'the method'
  if (received.target !== targetOf(target)) return 'the target'
  const host = authority ?? valuesOf(message.fields, 'host')[0] ?? ''
  if (normalHost(valuesOf(received.headers, 'host').join()) !== normalHost(host)) return 'the host'
  if (received.body !== message.body.join('')) return 'the body'
  const sent = joined(message.fields.filter(([name]) => !IDENTITY.test(name)))
  const fields = joined(received.headers)
  for (const name of new Set([...sent.keys(), ...fields.keys()]))
    if (sent.get(name) !== fields.get(name) && !ADDED.test(name)) return `the field ${name}`
  // They may be left out (RFC 9110 §6.5.1), not invented.
  const trailers = joined(message.trailers)
  return [...joined(received.trailers)].some(([name, value]) => trailers.get(name) !== value) ? 'a trailer' : undefined
}
