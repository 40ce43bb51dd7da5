// Refuses token secrets that are short, a sample from a manual, or repetitive.
import type { Reader } from './reader.ts'

const MIN_BYTES = 32

/** JWT_SECRET and JWT_PREVIOUS_SECRETS (RFC 7518 §3.2: at least as long as the hash). */
export const readSecrets = (
  reader: Reader,
  warnings: string[]
): { secret: string; previousSecrets: readonly string[] } => {
  const secret = reader.text('JWT_SECRET')
  const previousSecrets = [...new Set(reader.list('JWT_PREVIOUS_SECRETS'))].filter(previous => previous !== secret)
  for (const message of new Set(previousSecrets.map(weaknessOf))) {
    if (message !== undefined) reader.mistake('JWT_PREVIOUS_SECRETS', `contains a secret that ${message}`)
  }
  if (previousSecrets.some(previous => weaknessOf(previous) === undefined && looksMade(previous)))
    warnings.push('JWT_PREVIOUS_SECRETS contains a secret that does not look random, and it still verifies tokens')
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
  return isSample(secret) ? 'must not be a sample value, since anyone could sign tokens with it' : undefined
}

const MIN_DISTINCT = 10
const LONGEST_UNIT = 16

/** Few different characters, words that describe a secret, a short repeated text, or mostly sequences such as 0123 and 1q2w3e. */
const looksMade = (secret: string): boolean => {
  const text = secret.toLowerCase()
  if (new Set(secret).size < MIN_DISTINCT || DESCRIPTION.test(text)) return true
  return isRepetition(secret) || isMostlyRuns(text, 1) || isMostlyRuns(text, 2)
}

/** Words of six letters and more, because random text contains shorter ones from time to time. */
const DESCRIPTION = /secret|passw(?:or|d)|change|example|default|letmein|portaria/

const isRepetition = (text: string): boolean => {
  for (let unit = 1; unit <= LONGEST_UNIT && 2 * unit <= text.length; unit++)
    if (text.startsWith(text.slice(unit))) return true
  return false
}

const KEYBOARD = ['qwertyuiop', 'asdfghjkl', 'zxcvbnm', '1234567890'].flatMap(row => [row, [...row].reverse().join('')])

/** @param stride 2: two sequences, whose characters alternate */
const isMostlyRuns = (text: string, stride: number): boolean => {
  let steps = 0
  for (let i = stride; i < text.length; i++) {
    const pair = `${text[i - stride]}${text[i]}`
    const isStep = Math.abs(text.charCodeAt(i) - text.charCodeAt(i - stride)) <= 1
    if (isStep || KEYBOARD.some(row => row.includes(pair))) steps++
  }
  return steps * 2 > text.length
}

/** Samples from manuals and starter kits, compared ignoring case and punctuation. */
const SAMPLES: ReadonlySet<string> = new Set(
  `astringsecretatleast256bitslong yoursupersecretjwttokenwithatleast32characterslong supersecretjwttokenwithatleast32characterslong
  your256bitsecretyour256bitsecret thisisaverylongsecretkeyforjwtauthentication thisisasecretkeythatshouldbechanged
  mysupersecretkeythatisatleast32characterslong averylongrandomanduniquesecretkey thisisnotasecretthisisnotasecret
  9a4f2c8d3b7a1e6f45c8a0b3f267d8b1d4e6f3c8a9d2b5f8e3a9c8b5f6v8a3d9 404e635266556a586e3272357538782f413f4428472b4b6250645367566b5970`.split(
    /\s+/
  )
)
const SAMPLE_STARTS =
  /^(?:please)?(?:change|replace)(?:me|this|with|it)|^your(?:super|very|jwt|long|own)*(?:secret|key)/
const REPEATED = /^(?:secret|password|changeme|example|default|jwtsecret)+$/

const isSample = (secret: string): boolean => {
  const plain = secret.toLowerCase().replace(/[^a-z0-9]/g, '')
  return SAMPLES.has(plain) || SAMPLE_STARTS.test(plain) || REPEATED.test(plain)
}
