// Reads the session out of Cookie fields, and takes it from what backends get, as a second reading of RFC 6265 §5.4 expects.
import { createBrowserSession, isSessionCookie } from '../../../../gateway/access/browser-session.ts'
import { GatewayError } from '../../../../gateway/errors.ts'
import type { Exchange } from '../../../../gateway/http/exchange.ts'
import { createUpstreamHeads } from '../../../../gateway/upstream/headers/upstream-head.ts'
import { ownHostsOf } from '../../../../test/support/own-hosts.ts'
import { Fault, type Target } from '../engine.ts'

const NAMES = ['__Host-portaria_session', '__Host-portaria_session_1', '__Host-portaria_session_2']
const OWN = /^(__host-|__secure-)?portaria_session(_[0-9])?$/i
const session = createBrowserSession({
  publicUrl: 'https://gw.example',
  ...ownHostsOf('https://gw.example'),
  verifiedTokens: { identify: () => undefined } as never,
  endReplaced: async () => undefined
})
const heads = createUpstreamHeads({
  tokens: { isOurs: () => false },
  ownCookies: { has: isSessionCookie },
  assertions: { lineFor: () => '' }
})
const ROUTE = { browser: true, upstream: {}, path: '/x' }

const exchangeWith = (cookie: string) => {
  const request = { method: 'GET', fields: ['Cookie', cookie], connection: { isTls: true } }
  const head = { authorizations: 0, cookie, connection: '' }
  return {
    request,
    method: 'GET',
    head,
    route: ROUTE,
    path: '/x',
    host: 'gw',
    query: '',
    destination: '',
    client: { address: '::1' },
    peerTrusted: false
  } as unknown as Exchange
}

/** Pairs by a reading of its own: `;` ends one, the first `=` ends its name, blanks around both are none of them. */
const pairsOf = (field: string): (readonly [name: string, value: string])[] =>
  field.split(';').map(text => {
    const [, name = '', value = ''] = /^([^=]*)=?([\s\S]*)$/.exec(text) ?? []
    return [name.trim(), value.trim()] as const
  })

const tokenByModel = (field: string): string | undefined => {
  const own = pairsOf(field).filter(([name]) => NAMES.includes(name))
  if (new Set(own.map(([name]) => name)).size < own.length) return 'twice'
  const partOf = (wanted: string) => own.find(([name]) => name === wanted)?.[1]
  return partOf(NAMES[0] ?? '') === undefined ? undefined : NAMES.map(name => partOf(name) ?? '').join('')
}

const tokenByGateway = (exchange: Exchange): string | undefined => {
  try {
    return session.tokenOf(exchange)
  } catch (error) {
    if (error instanceof GatewayError && error.reason === 'two-session-cookies') return 'twice'
    throw error
  }
}

const run = (input: string): string => {
  // What no field value can hold never gets here.
  const field = input.replace(/[\x00-\x08\x0a-\x1f\x7f]/g, '')
  const exchange = exchangeWith(field)
  const [token, expected] = [tokenByGateway(exchange), tokenByModel(field)]
  const isPersonal = expected?.startsWith('pt_') === true
  // A pair without `=` is a name to some and a value to others; the gateway takes no session from it.
  const isBare = field.split(';').some(text => !text.includes('=') && NAMES.includes(text.trim()))
  if (!isPersonal && !isBare && token !== expected) throw new Fault('another session by the model')

  const [, cookie] = /\r\ncookie: ([^\r]*)/.exec(heads.whole(exchange, ROUTE as never, 'up', false)) ?? []
  const left = cookie === undefined ? [] : pairsOf(cookie)
  if (left.some(([name]) => OWN.test(name))) throw new Fault('the session goes up')
  const others = pairsOf(field).filter(([name]) => !isSessionCookie(name))
  const same = (pairs: readonly (readonly [string, string])[]) => pairs.map(pair => pair.join('=')).join(';')
  if (same(left) !== same(others) && !(left.length === 0 && others.length === 0))
    throw new Fault('other cookies have changed')
  const shape = pairsOf(field).map(
    ([name, value]) => `${NAMES.indexOf(name)}${OWN.test(name)}${Math.min(value.length, 2)}`
  )
  return `${token === undefined} ${expected === 'twice'} ${shape.slice(0, 5).join()} ${cookie === undefined}`
}

export const cookies: Target = {
  name: 'cookies',
  words: [
    ...NAMES,
    'portaria_session',
    '__Secure-portaria_session',
    '__HOST-PORTARIA_SESSION',
    ';',
    '; ',
    '=',
    '"',
    ' ',
    '\t',
    ',',
    'a=b',
    '\xa0'
  ],
  seeds: [
    `${NAMES[0]}=a.b.c`,
    `a=b; ${NAMES[0]}=x; ${NAMES[1]}=y; c=d`,
    `${NAMES[0]}=x; ${NAMES[0]}=y`,
    'portaria_session=x',
    ''
  ],
  run
}
