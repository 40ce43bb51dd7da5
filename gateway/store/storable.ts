// Makes text and JSON from outside safe to store in Postgres: limited in size and well-formed.
import { createHash } from 'node:crypto'

const MAX_TEXT_CODE_POINTS = 256
const MAX_JSON_BYTES = 32 * 1024
const SECRET_KEY = /^(password|secret|token|authorization|cookie|clientsecret|accesstoken)$/i

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** Trimmed text without NUL (rejected by Postgres) or lone surrogates, at most `max` code points; `''` if not a string. */
export const storableText = (value: unknown, max = MAX_TEXT_CODE_POINTS): string => {
  if (typeof value !== 'string') return ''
  const clean = value
    .slice(0, max * 4)
    .replaceAll('\0', '')
    .toWellFormed()
    .trim()
  return clean.length <= max ? clean : [...clean].slice(0, max).join('')
}

/**
 * Text that identifies someone: kept unchanged or refused (`undefined`), because two altered ones could become equal.
 */
export const storableKey = (value: unknown, max = 512): string | undefined => {
  if (typeof value !== 'string' || value === '' || value.length > max) return undefined
  return value.includes('\0') || !value.isWellFormed() ? undefined : value
}

/** A JSON value for jsonb; secrets are replaced by key, and a value over 32 KiB by its size. */
export const storableJson = (value: unknown): Json => {
  const json = clean(value, 0)
  const bytes = Buffer.byteLength(JSON.stringify(json))
  return bytes <= MAX_JSON_BYTES ? json : { truncated: true, bytes }
}

const clean = (value: unknown, depth: number): Json => {
  if (value === null || value === undefined || depth > 16) return null
  if (typeof value === 'string') return value.replaceAll('\0', '').toWellFormed()
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value === 'boolean') return value
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (Array.isArray(value)) return value.map(item => clean(item, depth + 1))
  if (typeof value !== 'object') return null
  const entries = Object.entries(value).filter(([, item]) => item !== undefined && typeof item !== 'function')
  return Object.fromEntries(
    entries.map(([key, item]) => [
      key.replaceAll('\0', '').toWellFormed(),
      SECRET_KEY.test(key) ? '[redacted]' : clean(item, depth + 1)
    ])
  )
}

/** JSON with its keys in code unit order and no whitespace between tokens (after RFC 8785). */
export const canonicalJson = (value: Json): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const keys = Object.keys(value).sort()
  return `{${keys.map(key => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`).join(',')}}`
}

/** SHA-256 as lower-case hex. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
