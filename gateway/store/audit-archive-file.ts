// Verifies an archive of the audit log with JWT_SECRET alone: a header that the key vouches for, then one entry a line.
import { createReadStream } from 'node:fs'
import type { Sealed, SealingSecret } from '../tokens/sealed-keys.ts'
import { linesOf } from '../values/lines.ts'
import { isRecord, readRecord } from '../values/records.ts'
import {
  type AuditKey,
  type AuditKeys,
  type AuditRow,
  type ChainWalk,
  macOf,
  walkFrom,
  walkOver
} from './audit-chain.ts'
import { openAuditKey } from './audit-entry.ts'

export interface ArchiveFacts {
  readonly first: number
  readonly last: number
  /** Hash of the entry before the first one. */
  readonly previousHash: string
  readonly lastHash: string
  readonly writtenAt: string
  /** Entries whose key was not known then. Earlier releases did not count them. */
  readonly unknown?: number
  /** The keys that linked the entries, encrypted under the secrets of that time. */
  readonly keys: readonly { readonly id: string; readonly sealed: Sealed }[]
}

interface ArchiveHeader extends ArchiveFacts {
  readonly format: (typeof FORMATS)[number]
  readonly keyId: string
  readonly mac: string
}

const FORMATS = ['portaria audit archive 2', 'portaria audit archive 1'] as const

const vouched = ({ first, last, previousHash, lastHash, writtenAt, unknown }: ArchiveFacts): string =>
  `archive ${first} ${previousHash} ${last} ${lastHash} ${writtenAt}${unknown === undefined ? '' : ` ${unknown}`}`

export const archiveHeader = (key: AuditKey, facts: ArchiveFacts): ArchiveHeader => ({
  format: FORMATS[0],
  ...facts,
  keyId: key.id,
  mac: macOf(key, vouched(facts))
})

/** It is no archive, or no secret given opens its key. */
export class ArchiveUnreadable extends Error {
  readonly fault: 'format' | 'key'

  constructor(fault: ArchiveUnreadable['fault']) {
    super(`unreadable: ${fault}`)
    this.name = 'ArchiveUnreadable'
    this.fault = fault
  }
}

export interface ArchiveVerdict {
  ok: boolean
  first: number
  last: number
  /** Number of the first entry that is missing or differs from what was written, or that follows the last. */
  firstBroken?: number
  /** Entries whose key no secret opens any more. */
  uncheckable?: number
}

/** Throws ArchiveUnreadable, and what the file system refuses. */
export const verifyArchive = async (file: string, secrets: readonly SealingSecret[]): Promise<ArchiveVerdict> => {
  const stream = createReadStream(file, 'utf8')
  const lines = linesOf(stream)
  try {
    const header = headerOf((await lines.next()).value)
    if (header === undefined) throw new ArchiveUnreadable('format')
    const keys = header.keys.flatMap(key => openAuditKey(key, secrets) ?? [])
    const key = keys.find(({ id }) => id === header.keyId)
    if (key === undefined) throw new ArchiveUnreadable('key')
    const { first, last, previousHash, unknown } = header
    const walk = walkFrom(first - 1, previousHash, 0, unknown)
    const firstBroken = macOf(key, vouched(header)) === header.mac ? await walkLines(walk, lines, header, keys) : first
    if (firstBroken !== undefined) return { ok: false, first, last, firstBroken }
    return { ok: true, first, last, ...(walk.unknown > 0 ? { uncheckable: walk.unknown } : {}) }
  } finally {
    stream.destroy()
  }
}

const walkLines = async (
  walk: ChainWalk,
  lines: AsyncIterator<string, undefined>,
  { last, lastHash }: ArchiveHeader,
  keys: AuditKeys
): Promise<number | undefined> => {
  for (;;) {
    const next = await lines.next()
    if (next.done === true) return walk.number === last && walk.hash === lastHash ? undefined : walk.number + 1
    const row = rowOf(next.value)
    if (walk.number === last || row === undefined || !walkOver(walk, [row], keys)) return walk.number + 1
  }
}

const headerOf = (line: string | undefined): ArchiveHeader | undefined => {
  const value = readRecord(line ?? '')
  const isOfFormat = FORMATS.some(format => value?.format === format)
  const isHeader = isOfFormat && Array.isArray(value?.keys) && value.keys.every(isSealedKey) && isPlain(value)
  return isHeader ? (value as unknown as ArchiveHeader) : undefined
}

/** The key vouches for these, separated by blanks: none may be missing, and no text may pass for two of them. */
const isPlain = ({ first, last, unknown = 0, previousHash, lastHash, writtenAt }: Record<string, unknown>): boolean =>
  [first, last, unknown].every(Number.isInteger) &&
  [previousHash, lastHash, writtenAt].every(text => typeof text === 'string' && !text.includes(' '))

/** The keys are opened before the header can be verified. */
const isSealedKey = (key: unknown): boolean => {
  if (!isRecord(key) || typeof key.id !== 'string' || !isRecord(key.sealed)) return false
  return Object.values(key.sealed).every(copy => isRecord(copy) && typeof copy.box === 'string')
}

/** Whatever else is wrong with a row, its hash does not fit. */
const rowOf = (line: string): AuditRow | undefined => {
  const value = readRecord(line)
  if (![value?.at, value?.actorUsername, value?.ip].every(text => typeof text === 'string')) return undefined
  const at = new Date(String(value?.at))
  return Number.isNaN(at.getTime()) ? undefined : ({ ...value, at } as unknown as AuditRow)
}
