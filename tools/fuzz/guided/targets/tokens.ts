// Checks tokens: no change of a signed one passes, and of what is signed only what an independent reading finds good.
import { createHmac } from 'node:crypto'
import { GatewayError } from '../../../../gateway/errors.ts'
import { createAccessTokens } from '../../../../gateway/tokens/access-token.ts'
import type { Random } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'

const SECRET = 'the secret of the token fuzzer, known to nobody else'
const NOW_S = 1_800_000_000
const tokens = createAccessTokens({
  secret: SECRET,
  previousSecrets: [],
  expiresInMs: 3_600_000,
  now: () => NOW_S * 1000
})

const encode = (text: string) => Buffer.from(text, 'latin1').toString('base64url')
const sign = (header: string, payload: string): string => {
  const signed = `${encode(header)}.${encode(payload)}`
  return `${signed}.${createHmac('sha256', SECRET).update(signed).digest('base64url')}`
}

const HEADER = '{"alg":"HS256","typ":"JWT"}'
const CLAIMS =
  `{"sub":"7","name":"M","email":"","provider":"ldap","username":"m","perfis":["Agente"],"profiles":["Agente"],` +
  `"areas":[],"areaPrincipal":"","accessStatus":"assigned","jti":"x","ver":0,"auth_time":1,"iat":${NOW_S - 10},"exp":${NOW_S + 100}}`
const GOOD = sign(HEADER, CLAIMS)

/** Why claims must not pass (RFC 7519 §4.1, PRODUCT's table of claims); written without a look at the gateway's reading. */
const claimsFault = (claims: Record<string, unknown>): string | undefined => {
  const { exp, sub, profiles, perfis, jti, ver = 0, provider } = claims
  if (typeof exp !== 'number' || exp <= NOW_S) return 'exp'
  if (typeof sub !== 'string' || !Number.isSafeInteger(Number(sub)) || Number(sub) < 1) return 'sub'
  if (!Array.isArray(profiles) || JSON.stringify(profiles) !== JSON.stringify(perfis)) return 'profiles'
  if (typeof jti !== 'string' || jti === '') return 'jti'
  if (!Number.isSafeInteger(ver) || Number(ver) < 0) return 'ver'
  return ['ldap', 'cloudidp', 'client'].includes(String(provider)) ? undefined : 'provider'
}

const checkRaw = (token: string): string => {
  const checked = tokens.check(token)
  if (checked instanceof GatewayError) return `raw ${checked.reason}`
  if (token !== GOOD) throw new Fault('a token passes that was never signed')
  return 'raw good'
}

/** Canonical base64url (RFC 7515 §2, RFC 4648 §3.5): no padding, no other alphabet, no bits left over. */
const isCanonical = (part: string): boolean => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = alphabet.indexOf(part.at(-1) ?? '')
  const spare = [1, undefined, 16, 4][part.length % 4]
  return /^[A-Za-z0-9_-]+$/.test(part) && spare !== undefined && last % spare === 0
}

/** The parts as they stand: signed, however they are spelt. */
const checkSpelling = (parts: string): string => {
  const checked = tokens.check(`${parts}.${createHmac('sha256', SECRET).update(parts).digest('base64url')}`)
  if (checked instanceof GatewayError) return `spelt ${checked.reason}`
  if (!parts.split('.').every(isCanonical)) throw new Fault('another spelling of a token passes')
  return 'spelt good'
}

/** A part with one character that canonical base64url does not have there. */
const withSlip = (part: string, random: Random): string => {
  const at = random.below(part.length + 1)
  const slip = random.pick(['=', '==', ' ', '\r\n', '+', '/', '-', 'A', '\0', '\xff'])
  return random.below(2) === 0 ? part + slip : part.slice(0, at) + slip + part.slice(at)
}

const generate = (random: Random): string => {
  const [header, payload] = [encode(HEADER), encode(CLAIMS)]
  switch (random.below(4)) {
    case 0:
      return GOOD
    case 1:
      return `${HEADER}\n${CLAIMS}`
    case 2:
      return `!${header}.${withSlip(payload, random)}`
    default:
      return `!${withSlip(header, random)}.${payload}`
  }
}

const checkSigned = (header: string, payload: string): string => {
  const checked = tokens.check(sign(header, payload))
  if (checked instanceof GatewayError) return `signed ${checked.reason} ${payload.replace(/\w+/g, 'a').slice(0, 40)}`
  const parsed = JSON.parse(Buffer.from(payload, 'latin1').toString('utf8')) as Record<string, unknown>
  const { alg, typ, crit } = JSON.parse(Buffer.from(header, 'latin1').toString('utf8')) as Record<string, unknown>
  if (alg !== 'HS256' || typ !== 'JWT' || crit !== undefined) throw new Fault('a header passes that must not')
  const fault = claimsFault(parsed)
  if (fault !== undefined) throw new Fault(`claims pass with a bad ${fault}`)
  if (String(checked.subject) !== String(parsed.sub) && String(checked.user?.id) !== parsed.sub)
    throw new Fault('another person')
  return `signed good ${Object.keys(parsed)
    .map(key => `${key.slice(0, 4)}${typeof parsed[key]}`)
    .join()}`
}

export const jsonWebTokens: Target = {
  name: 'tokens',
  words: [
    ...[
      '.',
      '=',
      '-',
      '_',
      '+',
      '/',
      '"',
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      'null',
      'true',
      '0',
      '-1',
      '1e3',
      '1e400',
      '\\u0000',
      '\xff'
    ],
    ...[
      '"exp":',
      '"nbf":',
      '"iat":',
      '"ver":',
      '"sub":"1"',
      '"alg":"none"',
      '"crit":["b64"]',
      '"b64":false',
      '"__proto__":{}'
    ],
    ...[
      'HS512',
      'eyJhbGciOiJub25lIn0',
      '"provider":"client"',
      '"provider":"root"',
      '"profiles":["Admin"]',
      '"perfis":["Admin"]',
      '\n'
    ]
  ],
  // Raw ones; a header and claims to be signed, with a line end between them; and both encoded already, behind a mark.
  seeds: [
    GOOD,
    `!${encode(HEADER)}.${encode(CLAIMS)}`,
    `${GOOD}=`,
    GOOD.slice(0, -1),
    `${HEADER}\n${CLAIMS}`,
    `${HEADER.replace('HS256', 'none')}\n${CLAIMS}`
  ],
  generate,
  run: input => {
    if (input.startsWith('!')) return checkSpelling(input.slice(1))
    const at = input.indexOf('\n')
    return at === -1 ? checkRaw(input) : checkSigned(input.slice(0, at), input.slice(at + 1))
  }
}
