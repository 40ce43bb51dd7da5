// Validates the header rules of an upstream: the names that they may use, and that no two set the same field.

import { readLaxly, SHARED_CACHE_FIELDS, SHARED_CACHE_SUFFIX } from '../../http/fields.ts'
import type { IdentityHeader } from '../../routes/upstream.ts'
import type { Complain } from '../complaint.ts'
import type { HeaderRulesData, UpstreamData } from '../schema/upstream-schema.ts'

// Framing (RFC 9112 §6), hop-by-hop (RFC 9110 §7.6.1), and what the gateway itself writes.
const NEVER =
  /^(?:host|content-length|transfer-encoding|connection|keep-alive|proxy-(?:connection|authenticate|authorization|authentication-info)|te|trailer|upgrade|http2-settings|expect|forwarded|x-real-ip|x-request-id|x-portaria-via|x-(?:user|forwarded|ratelimit)-.*|sec-websocket-.*)$/
const NEVER_IN_RESPONSES = /^(?:set-cookie2?|cache-control|vary|access-control-.*)$/

/** Two people can have the same name: accounts of the directory, of the provider, and service accounts. */
const AMBIGUOUS: ReadonlySet<IdentityHeader['attribute']> = new Set(['username', 'email'])

export const defineHeaders = (data: UpstreamData, say: Complain) => {
  const requestHeaders = defineRules('requestHeaders', data.requestHeaders, say)
  const identityHeaders = defineIdentity(data, say)
  const written = [
    ...(requestHeaders?.set ?? []).map(([name]) => ({ name, path: ['requestHeaders', 'set', name] })),
    ...(identityHeaders ?? []).map(({ name }) => ({ name, path: ['identityHeaders', name] }))
  ]
  checkTwice(written, say)
  checkCaches(data, say)
  return {
    requestHeaders,
    responseHeaders: defineRules('responseHeaders', data.responseHeaders, say),
    identityHeaders
  }
}

const defineRules = (key: 'requestHeaders' | 'responseHeaders', data: HeaderRulesData | undefined, say: Complain) => {
  if (data === undefined) return undefined
  const set = Object.entries(data.set ?? {})
  const remove = data.remove ?? []
  for (const [name] of set) checkName(key, name, say, key, 'set', name)
  for (const [index, name] of remove.entries()) checkName(key, name, say, key, 'remove', index)
  if (key === 'responseHeaders')
    checkTwice(
      set.map(([name]) => ({ name, path: [key, 'set', name] })),
      say
    )
  return { set, remove }
}

const checkName = (key: string, name: string, say: Complain, ...path: (string | number)[]): void => {
  const read = readLaxly(name)
  if (NEVER.test(read) || (key === 'responseHeaders' && NEVER_IN_RESPONSES.test(read))) {
    say(`"${key}" must not name ${name}: it belongs to the gateway`, ...path)
  }
}

const defineIdentity = (data: UpstreamData, say: Complain): IdentityHeader[] | undefined => {
  if (data.identityHeaders === undefined) return undefined
  const headers = Object.entries(data.identityHeaders).map(([name, attribute]) => ({ name, attribute }))
  for (const { name, attribute } of headers) {
    checkName('identityHeaders', name, say, 'identityHeaders', name)
    if (AMBIGUOUS.has(attribute) && data.identityHeadersShared !== true) {
      say(
        `the same ${attribute} may be two people: use login or id, or say "identityHeadersShared: true"`,
        'identityHeaders',
        name
      )
    }
  }
  return headers
}

/** Private responses would be stored, although their Cache-Control says `private`. */
const checkCaches = ({ responseHeaders, sharedCache }: UpstreamData, say: Complain): void => {
  if (sharedCache === true) return
  for (const name of Object.keys(responseHeaders?.set ?? {})) {
    const read = readLaxly(name)
    if (SHARED_CACHE_FIELDS.includes(read) || read.endsWith(SHARED_CACHE_SUFFIX))
      say(
        `shared caches would obey ${name} for private routes too: leave it out, or say "sharedCache: true"`,
        'responseHeaders',
        'set',
        name
      )
  }
}

/** A backend that reads names laxly would confuse two such spellings. */
const checkTwice = (written: readonly { name: string; path: (string | number)[] }[], say: Complain): void => {
  const known = new Map<string, string>()
  for (const { name, path } of written) {
    const read = readLaxly(name)
    const earlier = known.get(read)
    if (earlier === undefined) known.set(read, name)
    else say(`${name} is written twice${earlier === name ? '' : `, also as ${earlier}`}`, ...path)
  }
}
