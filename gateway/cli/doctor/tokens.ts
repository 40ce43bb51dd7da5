// Probes a private path with tokens that no one was given; none of them may be accepted.
import { createHmac, createSign, generateKeyPairSync, type KeyPairKeyObjectResult } from 'node:crypto'
import type { Probe } from './client.ts'
import { type Checks, collect, type DoctorWorld, isSuccess } from './world.ts'

type Part = Readonly<Record<string, unknown>>

const encode = (part: Part): string => Buffer.from(JSON.stringify(part)).toString('base64url')

/** Claims that an Admin would have. Seconds since the epoch. */
const claims = (more: Part = {}): Part => {
  const now = Math.floor(Date.now() / 1000)
  return {
    sub: '1',
    name: 'doctor',
    email: '',
    provider: 'ldap',
    username: 'doctor',
    perfis: ['Admin'],
    profiles: ['Admin'],
    areas: ['Geral'],
    areaPrincipal: 'Geral',
    accessStatus: 'assigned',
    role: 'Admin',
    jti: 'doctor',
    ver: 0,
    iat: now,
    exp: now + 600,
    ...more
  }
}

const HASHES: Readonly<Record<string, string>> = { HS256: 'sha256', HS384: 'sha384', HS512: 'sha512' }

const sign = (secret: string, header: Part = {}, payload: Part = claims()): string => {
  const full: Part = { alg: 'HS256', typ: 'JWT', ...header }
  const signed = `${encode(full)}.${encode(payload)}`
  return `${signed}.${createHmac(HASHES[String(full.alg)] ?? 'sha256', secret)
    .update(signed)
    .digest('base64url')}`
}

const unsigned = (alg: string, signature = ''): string =>
  `${encode({ alg, typ: 'JWT' })}.${encode(claims())}.${signature}`

/** Secrets from manuals and starter kits, and ones that are easily guessed. */
const WEAK =
  `secret password changeme jwt_secret jwtsecret your-256-bit-secret supersecret mysecret secretkey secret-key
  secret123 123456 admin test default key private shhhhh token jwt development
  your-secret-key a-string-secret-at-least-256-bits-long`.split(/\s+/)

/** Long enough for HS256, but not random. */
const MADE = `${'a'.repeat(32)} ${'0'.repeat(32)} ${'0123456789'.repeat(4)} ${'0123456789abcdef'.repeat(2)}
  abcdefghijklmnopqrstuvwxyz0123456789 ${'changeme'.repeat(4)}`.split(/\s+/)

type Named = readonly [name: string, token: string]

/** Any response that differs from the one to no token counts as accepted: also a missing role, 404 or an unavailable backend. */
const accepted = ({ client, closed }: DoctorWorld, tokens: readonly Named[]): Promise<string[]> => {
  const target = closed.find(({ status }) => status === 401) ?? closed[0]
  const means = target?.status === 401 ? [403, 404, 502] : [404, 502]
  return collect(tokens, async ([name, token]) => {
    const probe: Probe = { target: target?.path ?? '/', headers: [['Authorization', `Bearer ${token}`]] }
    const answer = await client.ask(probe)
    const isAccepted = isSuccess(answer) || means.includes(answer.status)
    return isAccepted ? `${name}: GET ${probe.target} → ${answer.status}` : undefined
  })
}

const withSecret = async (world: DoctorWorld, tokens: (secret: string) => readonly Named[]): Promise<string[]> =>
  world.secret === undefined ? [] : accepted(world, tokens(world.secret))

export const TOKEN_CHECKS: Checks = {
  'jwt-none': {
    title: 'Tokens without a signature are accepted',
    fix: 'Accept exactly one algorithm, chosen by the server, never by the token (RFC 8725 §3.1).',
    look: world =>
      accepted(
        world,
        ['none', 'None', 'NONE', 'nOnE', ''].map(alg => [`alg "${alg}"`, unsigned(alg)])
      )
  },
  'jwt-signature': {
    title: 'The signature of tokens is not verified',
    fix: 'Verify the signature before trusting anything in the payload.',
    look: world => accepted(world, badlySigned(world.token))
  },
  'jwt-weak-secret': {
    title: 'Tokens are signed with a secret that can be guessed',
    fix: 'Use at least 32 random bytes (openssl rand -hex 32), and log everyone out.',
    look: async world => {
      const guesses = ['', ...WEAK, ...MADE].map((secret): Named => [`secret "${secret}"`, sign(secret)])
      const others = ['HS384', 'HS512'].flatMap(alg =>
        ['', 'secret', 'changeme'].map((secret): Named => [`${alg}, secret "${secret}"`, sign(secret, { alg })])
      )
      return accepted(world, [...guesses, ...others])
    }
  },
  'jwt-key-by-token': {
    title: 'A token may choose the key that verifies it',
    fix: 'Never take a key, or its location, from a token: ignore paths in kid, and jwk, jku and x5u.',
    look: world => accepted(world, keysOfTheirOwn())
  },
  'jwt-algorithm': {
    severity: 'medium',
    title: 'Another algorithm is accepted with the right secret',
    fix: 'Accept HS256 only, whatever the token says.',
    look: world => withSecret(world, secret => ['HS384', 'HS512'].map(alg => [alg, sign(secret, { alg })]))
  },
  'jwt-lifetime': {
    title: 'Tokens that have expired, or never do, are accepted',
    fix: 'Require exp, and refuse tokens that have expired, are not yet valid, or live longer than any token you issue.',
    look: world => withSecret(world, outOfTime)
  },
  'jwt-place': {
    severity: 'medium',
    title: 'A token is accepted where it may be logged or sent automatically',
    fix: 'Accept tokens only in the Authorization header: queries are logged, and browsers send cookies for any page.',
    look: misplaced
  }
}

const badlySigned = (token: string | undefined): Named[] => {
  const forged = sign('portaria doctor: no one uses this as a secret')
  const [head = '', , signature = ''] = (token ?? forged).split('.')
  return [
    ['a signature by another secret', forged],
    ['an empty signature', `${forged.slice(0, forged.lastIndexOf('.'))}.`],
    ...(token === undefined ? [] : [['other claims', `${head}.${encode(claims())}.${signature}`] as const])
  ]
}

let rsaKeys: KeyPairKeyObjectResult | undefined

const keysOfTheirOwn = (): Named[] => {
  // Any will do, and making one takes longer than all other probes of tokens.
  rsaKeys ??= generateKeyPairSync('rsa', { modulusLength: 2048 })
  const { privateKey, publicKey } = rsaKeys
  const header = { alg: 'RS256', typ: 'JWT', jwk: publicKey.export({ format: 'jwk' }) }
  const signed = `${encode(header)}.${encode(claims())}`
  const rsa = `${signed}.${createSign('sha256').update(signed).sign(privateKey).toString('base64url')}`
  const own = 'a key that the token itself contains'
  const jwk = { kty: 'oct', k: Buffer.from(own).toString('base64url') }
  return [
    ['jwk with RS256', rsa],
    ['jwk with HS256', sign(own, { jwk })],
    ['kid /dev/null', sign('', { kid: '../../../../../../dev/null' })],
    ["kid ' UNION", sign('doctor', { kid: "x' UNION SELECT 'doctor" })]
  ]
}

const outOfTime = (secret: string): Named[] => {
  const now = Math.floor(Date.now() / 1000)
  return [
    ['expired an hour ago', sign(secret, {}, claims({ iat: now - 7200, exp: now - 3600 }))],
    ['without exp', sign(secret, {}, claims({ exp: undefined }))],
    ['valid for ten years', sign(secret, {}, claims({ exp: now + 10 * 365 * 86_400 }))],
    ['valid from tomorrow', sign(secret, {}, claims({ nbf: now + 86_400 }))]
  ]
}

async function misplaced({ client, path, token }: DoctorWorld): Promise<string[]> {
  if (token === undefined) return []
  const inHeader = (name: string, value: string): Probe => ({ target: path, headers: [[name, value]] })
  const probes: Record<string, Probe> = { 'in X-Access-Token': inHeader('X-Access-Token', token) }
  for (const name of ['access_token', 'token', 'jwt'])
    probes[`in the query as ${name}`] = { target: `${path}?${name}=${token}` }
  for (const name of ['token', 'access_token', 'authToken', 'jwt'])
    probes[`in the cookie ${name}`] = inHeader('Cookie', `${name}=${token}`)
  // The report does not repeat the token itself.
  return collect(Object.entries(probes), async ([where, probe]) =>
    isSuccess(await client.ask(probe)) ? `${path} ${where}` : undefined
  )
}

/** For probes other than HTTP. */
export const unsignedToken = (): string => unsigned('none')
