// Links entries of the audit log by HMAC (RFC 2104), and checks that each follows from the one before it.
import { createHmac, hkdfSync } from 'node:crypto'
import type { AuditContent, AuditHead, AuditRow } from './audit-rows.ts'
import { canonicalJson, sha256 } from './storable.ts'

const GENESIS_HASH = '0'.repeat(64)

/** A key of the audit log, and where it took over: every entry after this number is linked with it. */
export interface AuditKey {
  readonly id: string
  readonly secret: Buffer
  /** Names and addresses are hashed under a key of their own. */
  readonly digestSecret: Buffer
  readonly from: number
  /** Hash of the entry with that number. */
  readonly hash: string
}

/** The keys that this process can open, in the order in which they took over. */
export type AuditKeys = readonly AuditKey[]

export const auditKey = (id: string, secret: Buffer, from: number, hash: string): AuditKey => ({
  id,
  secret,
  digestSecret: Buffer.from(hkdfSync('sha256', secret, '', 'portaria audit digests', 32)),
  from,
  hash
})

const hmac = (secret: Buffer, text: string): string => createHmac('sha256', secret).update(text).digest('hex')

/** Takes the place of a name or an address in what is hashed, so that it can be erased later. */
export const digestOf = ({ digestSecret }: AuditKey, text: string): string =>
  text === '' ? '' : hmac(digestSecret, text).slice(0, 32)

/** Vouches for a text that only somebody with the key can have written. */
export const macOf = ({ secret }: AuditKey, text: string): string => hmac(secret, `portaria audit ${text}`)

type Digests = Partial<Pick<AuditRow, 'actorDigest' | 'ipDigest'>>

/** SHA-256 over the canonical JSON of an entry; with a key, over digests of its name and address. */
export const contentHash = (content: AuditContent, key?: AuditKey, { actorDigest, ipDigest }: Digests = {}): string => {
  const { at, actorId, actorUsername, action, target, before, after, requestId, ip, details } = content
  const said = { at: at.toISOString(), actorId, action, target, before, after, requestId, details }
  const who = key && {
    actor: actorDigest ?? digestOf(key, actorUsername),
    address: ipDigest ?? digestOf(key, ip)
  }
  return sha256(canonicalJson({ ...said, ...(who ?? { actorUsername, ip }) }))
}

/** The hash of an entry; without a key, as the trigger `audit_link` computes it (migration 0017). */
export const linkHash = (previousHash: string, content: string, key?: AuditKey): string =>
  key === undefined ? sha256(previousHash + content) : hmac(key.secret, previousHash + content)

/** What vouches for the last archived entry. */
export const archivedMac = (key: AuditKey, number: number, hash: string): string =>
  macOf(key, `archived ${number} ${hash}`)

/** Whether the entries that are left begin where the log begins, or where an archive of ours ends. */
export const isBeginning = (
  { archived, archivedHash, archivedKey, archivedMac: mac }: AuditHead,
  keys: AuditKeys
): boolean => {
  if (archived === 0) return archivedHash === GENESIS_HASH
  const key = keys.find(({ id }) => id === archivedKey)
  return key !== undefined && archivedMac(key, archived, archivedHash) === mac
}

export interface ChainWalk {
  /** The last entry that was checked, and its hash. */
  number: number
  hash: string
  /** Entries without a key that is known here, after one had taken over. */
  unkeyed: number
  /** Entries whose key no secret opens any more, from before the first key that one opens. */
  uncheckable: number
}

export const walkFrom = (number: number, hash: string): ChainWalk => ({ number, hash, unkeyed: 0, uncheckable: 0 })

/** Moves on over these entries, which come next; false at the first that does not follow: the walk stays before it. */
export const walkOver = (walk: ChainWalk, rows: readonly AuditRow[], keys: AuditKeys): boolean => {
  for (const row of rows) if (row.id !== walk.number + 1 || !passes(walk, row, keys)) return false
  return true
}

const passes = (walk: ChainWalk, row: AuditRow, keys: AuditKeys): boolean => {
  if (row.previousHash !== walk.hash) return false
  const first = keys[0]?.from ?? Number.POSITIVE_INFINITY
  const key = keys.find(({ id }) => id === row.keyId)
  const isLost = row.keyId !== null && key === undefined
  if (isLost) {
    // Written by an instance that still had a secret that has been replaced, or by anybody: like one without a key.
    if (row.id > first) walk.unkeyed++
    else walk.uncheckable++
  } else {
    const content = contentHash(row, key, row)
    if (row.contentHash !== content || row.hash !== linkHash(walk.hash, content, key)) return false
    if (key === undefined && row.id > first) walk.unkeyed++
  }
  // What a key took over from is part of the key.
  if (keys.some(({ from, hash }) => from === row.id && hash !== row.hash)) return false
  walk.number = row.id
  walk.hash = row.hash
  return true
}
