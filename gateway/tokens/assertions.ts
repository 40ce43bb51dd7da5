// Signs a person's identity for one upstream, so that it need not trust the network (RFC 7519, ES256).
import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import type { Logger } from 'pino'
import type { Identity } from '../identity.ts'
import { every, everyInTurn } from '../values/contain.ts'
import { encodePart, personClaims } from './claims.ts'
import type { SealingSecret } from './sealed-keys.ts'
import { type PublicJwk, type SigningKeyRow, signerAmong } from './signing-keys.ts'

interface AssertionOptions {
  /** `iss`. */
  issuer: string
  secrets: readonly SealingSecret[]
  /** Monotonic, milliseconds. */
  clock?: () => number
}

interface Signer {
  readonly kid: string
  readonly key: KeyObject
  readonly header: string
}

interface Signed {
  readonly line: string
  readonly signer: Signer
  /** By the monotonic clock. */
  readonly renewAtMs: number
  /** As it was then: another one means that the machine was suspended since, or the clock of the database was set. */
  readonly zeroS: number
}

const LIFE_S = 5 * 60
/** An assertion is valid for at least this long when a backend receives it. */
const RENEW_BEFORE_S = 2 * 60
/** Backends whose clock is behind accept an assertion immediately. */
const BACKDATED_S = 5
/** The zero point is read again and again, and differs a little each time. */
const SAME_ZERO_S = 30

export type Assertions = ReturnType<typeof createAssertions>

export const createAssertions = (options: AssertionOptions) => {
  const { issuer, secrets, clock = () => performance.now() } = options
  const signed = new WeakMap<Identity, Map<string, Signed>>()
  let rows: readonly SigningKeyRow[] = []
  let signer: Signer | undefined
  /** The database's time at the zero point of the monotonic clock, so that a jump of this machine's clock has no effect. */
  let zeroS = 0

  const nowS = () => zeroS + clock() / 1000

  const make = (identity: Identity, audience: string, by: Signer): Signed => {
    const issuedAt = Math.floor(nowS())
    const from = issuedAt - BACKDATED_S
    const expiresAt = Math.min(from + LIFE_S, identity.expiresAt)
    const times = { iat: from, exp: expiresAt }
    const { user } = identity
    const claims = { sub: String(user.id), ...personClaims(user), iss: issuer, aud: audience, ...times }
    const text = `${by.header}.${encodePart(claims)}`
    // RFC 7518 §3.4: R and S side by side.
    const signature = sign('sha256', Buffer.from(text), { key: by.key, dsaEncoding: 'ieee-p1363' })
    const line = `x-user-assertion: ${text}.${signature.toString('base64url')}\r\n`
    const renewAtMs = clock() + Math.max(expiresAt - issuedAt - RENEW_BEFORE_S, 1) * 1000
    return { line, signer: by, renewAtMs, zeroS }
  }

  return {
    /** `x-user-assertion: …` with its line break, cached per token and upstream; '' while no key can sign. */
    lineFor(identity: Identity, audience: string) {
      if (signer === undefined) return ''
      const byAudience = signed.get(identity) ?? new Map<string, Signed>()
      const known = byAudience.get(audience)
      const isCurrent = known?.signer === signer && Math.abs(zeroS - known.zeroS) < SAME_ZERO_S
      if (isCurrent && clock() < known.renewAtMs) return known.line
      const made = make(identity, audience, signer)
      signed.set(identity, byAudience.set(audience, made))
      return made.line
    },
    /** The content of /auth/jwks.json. */
    publicKeys: (): readonly PublicJwk[] => rows.map(({ publicJwk }) => publicJwk),
    /** The current keys; `nowS` by the database's clock. */
    learn(read: readonly SigningKeyRow[], databaseNowS: number) {
      zeroS = databaseNowS - clock() / 1000
      rows = read
      const found = signerAmong(rows, secrets, databaseNowS)
      if (found === undefined || found.kid === signer?.kid) return
      const key = createPrivateKey({ key: found.privateJwk, format: 'jwk' })
      signer = { kid: found.kid, key, header: encodePart({ alg: 'ES256', typ: 'JWT', kid: found.kid }) }
    }
  }
}

interface AssertionFeedOptions {
  assertions: Pick<Assertions, 'learn'>
  /** Creates missing keys and reads all; at startup, a key that no secret can decrypt is replaced. */
  read: (isStart: boolean) => Promise<{ rows: readonly SigningKeyRow[]; nowS: number }>
  log: Pick<Logger, 'warn' | 'info'>
}

/** A new key is published ten minutes before it is used for signing. */
const EVERY_MS = 60_000
const WATCH_MS = 1000

/** How far the wall clock is ahead of the monotonic one, which stands still while the machine is suspended. */
const aheadS = () => (Date.now() - performance.now()) / 1000

/** Keeps the assertion keys in step with the database, and creates the next one in time. */
export const startAssertionFeed = async ({ assertions, read, log }: AssertionFeedOptions) => {
  let failing = false
  let learnedAheadS = 0
  const update = async (isStart: boolean) => {
    const { rows, nowS } = await read(isStart)
    assertions.learn(rows, nowS)
    learnedAheadS = aheadS()
  }
  await update(true)
  const poll = async () => {
    try {
      await update(false)
      if (failing) log.info('the assertion keys can be read again')
      failing = false
    } catch (error) {
      if (!failing)
        log.warn(
          { err: error, reason: 'signing-keys-unreadable' },
          'the assertion keys cannot be read; the known ones stay in use'
        )
      failing = true
    }
  }
  const stopPolling = every(EVERY_MS, poll)
  // Until the database's time is known again, assertions would be signed for a time that is over.
  const stopWatching = everyInTurn(WATCH_MS, async () => {
    if (Math.abs(aheadS() - learnedAheadS) >= SAME_ZERO_S) await poll()
  })
  return {
    close() {
      stopPolling()
      stopWatching()
    }
  }
}
