// Refuses token secrets that are short, repetitive or a sample from a manual.
import { deflateRawSync } from 'node:zlib'
import type { Reader } from './reader.ts'

const MIN_BYTES = 32
/** What 16 random bytes take as hexadecimal digits and more, when compressed; a short text that is repeated takes less. */
const MIN_COMPRESSED = 24
const LEAST_COMPRESSED = 16
/** Words that describe a secret; long ones, because random text contains shorter ones from time to time. */
const DESCRIPTION = /secret|passw(?:or|d)|change|example|default|portaria/i
/** From jwt.io and from the starter kit of Supabase. */
const SAMPLES =
  /^(?:a-string-secret-at-least-256-bits-long|your-super-secret-jwt-token-with-at-least-32-characters-long)$/

const UNLISTABLE =
  'contains a comma, or a blank at one of its ends, so JWT_PREVIOUS_SECRETS could not name it: once it is replaced, ' +
  'everyone must log in again, and the keys that it seals (assertions, audit log) cannot be opened'

/** JWT_SECRET and JWT_PREVIOUS_SECRETS (RFC 7518 §3.2: at least as long as the hash). */
export const readSecrets = (reader: Reader, warnings: string[]) => {
  const secret = reader.text('JWT_SECRET')
  const previousSecrets = [...new Set(reader.list('JWT_PREVIOUS_SECRETS'))].filter(previous => previous !== secret)
  for (const message of new Set(previousSecrets.map(weaknessOf))) {
    if (message !== undefined) reader.mistake('JWT_PREVIOUS_SECRETS', `contains a secret that ${message}`)
  }
  if (previousSecrets.some(previous => weaknessOf(previous) === undefined && looksMade(previous)))
    warnings.push('JWT_PREVIOUS_SECRETS contains a secret that does not look random, and it still verifies tokens')
  if (/,|^\s|\s$/.test(secret ?? '')) warnings.push(`JWT_SECRET ${UNLISTABLE}`)
  const weakness = secret === undefined ? undefined : weaknessOf(secret)
  if (weakness !== undefined) reader.mistake('JWT_SECRET', weakness)
  else if (secret !== undefined && looksMade(secret)) warnings.push('JWT_SECRET does not look random')
  else if (!reader.given('JWT_SECRET') && !reader.mistakes.some(({ variable }) => variable === 'JWT_SECRET_FILE')) {
    reader.mistake('JWT_SECRET', `is required: at least ${MIN_BYTES} random bytes, e.g. from \`openssl rand -hex 32\``)
  }
  return { secret: secret ?? '', previousSecrets }
}

const weaknessOf = (secret: string): string | undefined => {
  if (Buffer.byteLength(secret) < MIN_BYTES)
    return `must be at least ${MIN_BYTES} bytes, e.g. from \`openssl rand -hex 32\``
  const isGuessable = SAMPLES.test(secret) || deflateRawSync(secret).length < LEAST_COMPRESSED
  return isGuessable ? 'must not be a sample value or a repetition, since anyone could sign tokens with it' : undefined
}

const looksMade = (secret: string): boolean =>
  DESCRIPTION.test(secret) || deflateRawSync(secret).length < MIN_COMPRESSED
