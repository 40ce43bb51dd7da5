// Decides which keys sign assertions, which are published, and when the next one is created: the same on every instance.
import { createHash, generateKeyPairSync, type JsonWebKey } from 'node:crypto'
import { isAbandoned, reseal, type Sealed, type SealingSecret, seal, unseal } from './sealed-keys.ts'

/** A key as stored in the database; times in seconds by the database's clock. */
export interface SigningKeyRow {
  readonly kid: string
  readonly publicJwk: PublicJwk
  readonly sealed: Sealed
  readonly signsFrom: number
  /** 0: it is in use. */
  readonly setAsideAt: number
}

/** RFC 7517 §4, RFC 7518 §6.2.1. */
export type PublicJwk = JsonWebKey & { kid: string; alg: 'ES256'; use: 'sig' }

/** The changes to make, decided under a lock that all instances share. */
export type KeyPlan = ReturnType<typeof planKeys>

interface PlanOptions {
  readonly secrets: readonly SealingSecret[]
  /** Age at which the next key follows; seconds. */
  readonly rotationS: number
  /** By the database's clock. */
  readonly nowS: number
  /** Whether to replace a key that no secret decrypts: at startup, but not while other instances still decrypt it. */
  readonly isStart: boolean
  /** Create the next key regardless of the age of the last one. */
  readonly rotate?: boolean
}

/** A new key is published for this long before it signs, so that verifiers have fetched it. */
const PUBLISHED_BEFORE_S = 10 * 60
/** Signatures are valid for five minutes, and verifiers' clocks may be behind. */
const PUBLISHED_AFTER_S = 60 * 60
const ASIDE_PUBLISHED_S = 24 * 60 * 60

const newKey = ({ secrets, nowS }: PlanOptions, signsFrom: number): SigningKeyRow => {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { crv, kty, x, y } = pair.publicKey.export({ format: 'jwk' })
  // RFC 7638: the members in lexical order, without whitespace.
  const kid = createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url')
  const text = JSON.stringify(pair.privateKey.export({ format: 'jwk' }))
  const publicJwk: PublicJwk = { kty, crv, x, y, kid, alg: 'ES256', use: 'sig' } as PublicJwk
  return { kid, publicJwk, sealed: seal(secrets, kid, text, nowS), signsFrom, setAsideAt: 0 }
}

/** A key that no secret here decrypts succeeds no other, and is set aside once no running instance decrypts it. */
export const planKeys = (rows: readonly SigningKeyRow[], options: PlanOptions) => {
  const { secrets, rotationS, nowS, isStart, rotate = false } = options
  const isOpen = opener(secrets)
  const inUse = rows.filter(({ setAsideAt }) => setAsideAt === 0)
  const open = inUse.filter(isOpen)
  const lost = inUse.filter(row => !isOpen(row) && (isStart || isAbandoned(row.sealed, nowS)))
  const newest = Math.max(...open.map(({ signsFrom }) => signsFrom))
  const isDue = rotate || nowS - newest > rotationS
  // Set aside by an instance with other secrets.
  const wasOurs = rows.some(row => row.setAsideAt !== 0 && isOpen(row))
  const isMissing = open.length === 0 && (lost.length === inUse.length || wasOurs)
  // The very first key signs at once, because nothing was signed before it.
  const first = isMissing ? [newKey(options, nowS)] : []
  const changed = open.flatMap(({ kid, sealed }) => {
    const better = reseal(secrets, kid, sealed, nowS)
    return better === undefined ? [] : [{ kid, sealed: better }]
  })
  return {
    add: open.length > 0 && isDue ? [newKey(options, nowS + PUBLISHED_BEFORE_S)] : first,
    reseal: changed,
    setAside: lost.map(({ kid }) => kid),
    remove: rows.filter(row => isOver(row, open, nowS)).map(({ kid }) => kid)
  }
}

const opener =
  (secrets: readonly SealingSecret[]) =>
  ({ kid, sealed }: SigningKeyRow): boolean =>
    unseal(secrets, kid, sealed) !== undefined

/** Whether keys are in use and none of them opens: these are the secrets of another gateway. */
export const areForeign = (rows: readonly SigningKeyRow[], secrets: readonly SealingSecret[]): boolean => {
  const inUse = rows.filter(({ setAsideAt }) => setAsideAt === 0)
  return inUse.length > 0 && !inUse.some(opener(secrets))
}

/** Whether nothing that a key signed can still be valid. `open`: keys in use that a secret decrypts. */
const isOver = (row: SigningKeyRow, open: readonly SigningKeyRow[], nowS: number): boolean => {
  if (row.setAsideAt !== 0) return nowS - row.setAsideAt > ASIDE_PUBLISHED_S
  const successors = open.filter(({ signsFrom }) => signsFrom > row.signsFrom).map(({ signsFrom }) => signsFrom)
  return open.includes(row) && successors.length > 0 && nowS - Math.min(...successors) > PUBLISHED_AFTER_S
}

/**
 * The key that signs now: the newest one that is due and that a secret decrypts. Without one, the next signs at once: the clock
 * has been set back since the first key was created.
 */
export const signerAmong = (
  rows: readonly SigningKeyRow[],
  secrets: readonly SealingSecret[],
  nowS: number
): { kid: string; privateJwk: JsonWebKey } | undefined => {
  const due = rows.filter(({ signsFrom }) => signsFrom <= nowS)
  const waiting = rows.filter(row => !due.includes(row)).sort((a, b) => a.signsFrom - b.signsFrom)
  due.sort((a, b) => Number(a.setAsideAt !== 0) - Number(b.setAsideAt !== 0) || b.signsFrom - a.signsFrom)
  for (const { kid, sealed } of [...due, ...waiting]) {
    const text = unseal(secrets, kid, sealed)
    if (text !== undefined) return { kid, privateJwk: JSON.parse(text) as JsonWebKey }
  }
  return undefined
}
