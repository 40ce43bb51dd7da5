// Says what is missing from an unreadable line under `tests:`, and what its parts should look like.
import { nearestHint } from '../../values/spelling.ts'

const { METHODS } = process.getBuiltinModule('node:http')

/** The part of `METHOD PATH as WHO -> OUTCOME` that the line lacks. */
export const formHint = (line: string, isEvent: boolean): string => {
  const example = isEvent ? 'EVENT /messaging send as Agente -> allow' : 'GET /api/orders/7 as Agente -> allow'
  const [, method = ''] = /^(\S+)/.exec(line) ?? []
  if (/\s(?:=>|→|—>|-->|=|:)\s/.test(line)) return ': write -> before the outcome'
  if (/->/.test(line) && !/\s->\s/.test(line)) return ': write a space before and after ->'
  if (!/\sas\s/.test(line)) return `: "as WHO" is missing, as in "${example}"`
  if (!/->/.test(line)) return `: "-> OUTCOME" is missing, as in "${example}"`
  if (/\s->\s+\S+\s+\S/.test(line)) return ': nothing may follow the outcome'
  if (/^[a-z]+$/i.test(method) && method !== method.toUpperCase())
    return `: write the method as ${method.toUpperCase()}`
  return `, as in "${example}"`
}

/** A method that does not exist, but resembles one that does. */
export const methodComplaint = (method: string): string | undefined => {
  const hint = METHODS.includes(method) ? '' : nearestHint(method, METHODS)
  return hint === '' ? undefined : `unknown method "${method}"${hint}`
}

const OUTCOME_WORDS: readonly (readonly [RegExp, string])[] = [
  [/^(?:2\d\d|ok|pass(?:es)?|allow(?:ed|s)|permit|accept|yes|true)$/i, 'write allow'],
  [/^(?:unauthorized|unauthenticated|login|3\d\d|redirect)$/i, 'write 401, also where pages lead to the login'],
  [/^(?:forbid(?:den)?)$/i, 'write 403'],
  [/^(?:not-?found)$/i, 'write 404'],
  [
    /^(?:den(?:y|ied|ies)|refused?|reject(?:ed)?|block(?:ed)?|disallow(?:ed)?|no|false)$/i,
    'write 401 for a missing token, 403 for a missing role'
  ]
]

export const outcomeComplaint = (outcome: string): string => {
  const advice = OUTCOME_WORDS.find(([word]) => word.test(outcome))?.[1]
  const allowed = 'must be allow, 400, 401, 403, 404 or 405'
  return `unknown outcome "${outcome}": ${advice === undefined ? allowed : `${advice} (${allowed})`}`
}

/** `alone`: those that are not profiles. */
export const whoComplaint = (who: string, alone: readonly string[], profiles: readonly string[]): string => {
  const [first = '', ...more] = who.split(/[+,;|]/)
  if (/[,;|]/.test(who)) return `"${who}": join the roles of one person with +, as in ${[first, ...more].join('+')}`
  const unknown = who.split('+').find(role => !profiles.includes(role)) ?? ''
  if (alone.includes(unknown)) return `"${unknown}" cannot be combined with roles`
  const near = nearestHint(unknown, [...profiles, ...alone])
  return `unknown role "${unknown}"${near || `: must be ${alone.join(', ')}, or roles joined by + (${profiles.join(', ')})`}`
}
