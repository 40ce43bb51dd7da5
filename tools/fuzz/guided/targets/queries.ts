// Takes the token out of queries: what is left holds none, by the reading of URLSearchParams too.
import { socketToken } from '../../../../gateway/access/socket-token.ts'
import { GatewayError } from '../../../../gateway/errors.ts'
import type { Exchange } from '../../../../gateway/http/exchange.ts'
import { readEngineQuery } from '../../../../gateway/socketio/protocol/engineio-handshake.ts'
import { Fault, type Target } from '../engine.ts'

const ROUTE = { websocket: { origins: [], tokenInQuery: true } } as unknown as Parameters<typeof socketToken>[1]

/** Names as any backend may read them: decoded once, `+` as a blank. */
const namesOf = (query: string): string[] => [...new URLSearchParams(query).keys()]

const checkToken = (query: string): string => {
  const exchange = { request: { fields: [] }, head: { authorization: undefined }, query } as unknown as Exchange
  try {
    const { token, query: rest } = socketToken(exchange, ROUTE)
    if (namesOf(rest).includes('access_token')) throw new Fault('a token is left')
    const given = new URLSearchParams(query).getAll('access_token')
    if ((token === undefined) !== (given.length === 0)) throw new Fault('a token by one reading alone')
    if (token !== undefined && (given.length !== 1 || given[0] !== token)) throw new Fault('another token')
    const others = (text: string) =>
      text
        .slice(1)
        .split('&')
        .filter(pair => !namesOf(`?${pair}`).includes('access_token'))
    if (others(query).join('&') !== others(rest).join('&')) throw new Fault('what is left has changed')
    return `${token === undefined} ${rest === ''}`
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return `${error.reason}`
  }
}

const checkEngine = (query: string): string => {
  const read = readEngineQuery(query)
  if (read === undefined) return 'none'
  const parameters = new URLSearchParams(query)
  for (const [name, value] of [
    ['EIO', '4'],
    ['transport', read.transport],
    ['sid', read.sid]
  ] as const) {
    const all = parameters.getAll(name)
    if (value === undefined ? all.length > 0 : all.length !== 1 || all[0] !== value) throw new Fault(`another ${name}`)
  }
  if (parameters.has('j')) throw new Fault('JSONP passes')
  if (parameters.getAll('b64').some(value => value !== '1')) throw new Fault('b64 by one reading alone')
  return `${read.transport} ${read.sid === undefined}`
}

const shapeOf = (query: string): string =>
  query
    .split('&', 4)
    .map(pair => pair.replace(/[\w.]+/g, word => (word.length < 4 ? 'a' : word.slice(0, 4))).slice(0, 12))
    .join('&')

export const queries: Target = {
  name: 'queries',
  words: [
    ...[
      '?',
      '&',
      '=',
      '+',
      '%',
      '%5f',
      '%5F',
      '%61',
      'access_token',
      'access_token=',
      'access%5Ftoken=a.b.c',
      '&&',
      ';',
      '#',
      '\xff'
    ],
    ...[
      'EIO=4',
      'EIO=3',
      'transport=polling',
      'transport=websocket',
      'sid=abc',
      'sid=',
      '%73id=x',
      'j=0',
      'b64=1',
      't=x',
      'EIO%00=4'
    ]
  ],
  seeds: [
    '?access_token=a.b.c',
    '?a=b&access_token=x&c',
    '?EIO=4&transport=polling&t=x',
    '?EIO=4&transport=websocket&sid=abc',
    '?'
  ],
  run: input => {
    const query = input.startsWith('?') ? input : `?${input}`
    return `${checkToken(query)} ${checkEngine(query)} ${shapeOf(query)}`
  }
}
