// Checks bodies of POST /auth/login: credentials reach the directory exactly when a reading by hand finds them good.
import { pino } from 'pino'
import { unguarded } from '../../../../gateway/directory/account.ts'
import { DirectoryFailure } from '../../../../gateway/directory/failure.ts'
import type { GatewayError } from '../../../../gateway/errors.ts'
import { createCrossOrigins } from '../../../../gateway/http/cross-origin.ts'
import type { Exchange } from '../../../../gateway/http/exchange.ts'
import { readHead } from '../../../../gateway/http/head.ts'
import { createOwnEndpoints } from '../../../../gateway/http/own-endpoints.ts'
import { loginRoutes } from '../../../../gateway/login/routes.ts'
import { Fault, type Target } from '../engine.ts'

let asked: string | undefined
let settle: (error: GatewayError) => void = () => undefined

const directory = {
  normaliseLogin: (name: string) => name,
  authenticate: async (username: string, password: string) => {
    asked = `${username}\0${password}`
    throw new DirectoryFailure('directory-unreachable', 'the fuzzer has none')
  }
}
const own = await createOwnEndpoints({
  origins: createCrossOrigins('http://localhost', 'http://localhost', []),
  log: pino({ level: 'silent' }),
  refuse: (_exchange, error) => settle(error),
  register: app =>
    loginRoutes(app, {
      cloudidpActive: false,
      directory: directory as never,
      throttle: { attempt: (_attempt: unknown, ask: (guard: unknown) => unknown) => ask(unguarded) } as never,
      rememberAddress: async () => undefined,
      signIn: (async () => undefined) as never,
      onOutcome: () => undefined
    })
})

const exchangeOf = (body: Buffer): Exchange => {
  const fields = ['Host', 'gw', 'Content-Type', 'application/json', 'Content-Length', String(body.length)]
  const request = {
    method: 'POST',
    fields,
    connection: { isTls: false, peer: '::1' },
    isComplete: false,
    read(consumer: { onUpload(chunk: Buffer): void; onUploadEnd(): void }) {
      if (body.length > 0) consumer.onUpload(body)
      consumer.onUploadEnd()
    },
    pause: () => undefined,
    resume: () => undefined
  }
  const response = { whole: () => settle(undefined as never), continue: () => undefined, hasBegun: false }
  const client = { address: '::1', key: '::/64' }
  const exchange = {
    request,
    response,
    head: readHead(fields),
    path: '/auth/login',
    query: '',
    client,
    requestId: 'x'
  }
  return exchange as unknown as Exchange
}

/** What the directory must be asked; undefined: nothing. Lengths count characters, as JSON Schema does. */
const byHand = (body: Buffer): string | undefined => {
  try {
    const text = body.toString('utf8')
    const parsed = JSON.parse(text.replace(/^\ufeff/, '')) as { username: unknown; password: unknown } | null
    const { username, password } = parsed ?? {}
    if (typeof username !== 'string' || typeof password !== 'string') return undefined
    const fits = (value: string, most: number) => value !== '' && [...value].length <= most
    return fits(username, 256) && fits(password, 1024) ? `${username}\0${password}` : undefined
  } catch {
    return undefined
  }
}

const check = async (body: Buffer): Promise<GatewayError | undefined> => {
  asked = undefined
  const answered = new Promise<GatewayError>(resolve => {
    settle = resolve
  })
  own.handle(exchangeOf(body))
  return answered
}

export const loginBodies: Target = {
  name: 'login-bodies',
  words: [
    ...[
      '"username":',
      '"password":',
      '"a"',
      '""',
      'null',
      '1',
      'true',
      '[]',
      '{}',
      '{',
      '}',
      ',',
      ':',
      '"',
      '\\u0000',
      '\\ud800',
      '\xef\xbb\xbf'
    ],
    ...[
      '"__proto__":{}',
      '"constructor":{"prototype":{}}',
      '"x":1',
      '\xff',
      '\xf0\x9f\x98\x80',
      ' ',
      '\n',
      '/*',
      `"${'a'.repeat(257)}"`
    ]
  ],
  seeds: [
    '{"username":"maria","password":"segredo"}',
    '{"username":"","password":"x"}',
    '{"username":"m","password":null}',
    '[]',
    ''
  ],
  async run(input) {
    const body = Buffer.from(input, 'latin1')
    const error = await check(body)
    const expected = byHand(body)
    // Keys that reach for prototypes are refused whatever else there is.
    const isHostile = /__proto__|\\u|constructor/i.test(input)
    if (asked !== undefined && asked !== expected) throw new Fault('the directory is asked for something else')
    if (asked === undefined && expected !== undefined && !isHostile && body.length <= 65_536)
      throw new Fault(`good credentials are refused: ${error?.code}`)
    if (error === undefined || error.statusCode >= 500) throw new Fault(`answered with ${error?.code}`)
    return `${error.code} ${asked === undefined} ${input.replace(/\w+/g, 'a').slice(0, 24)}`
  }
}
