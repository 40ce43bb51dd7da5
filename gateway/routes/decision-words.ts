// Says a decision in a sentence that needs no knowledge of the code.

import type { Asker, Decision } from './decide.ts'
import type { RouteMatch } from './route.ts'

interface NamedAsker extends Asker {
  /** As people write it. */
  readonly name: string
}

const BAD_PATH: Readonly<Record<string, string>> = {
  'not-absolute': 'The path does not begin with /.',
  fragment: 'A # has no place in a request; some backends would cut the path there.',
  'double-slash': 'Two slashes in a row: some backends merge them, others do not.',
  'dot-segment': 'A dot segment: a backend would resolve it to another path.',
  'encoded-slash': '%2F: some backends take it for a slash (a route may say allowInPath: [encodedSlash]).',
  backslash: 'A backslash: some backends take it for a slash.',
  semicolon: 'A semicolon: some backends cut parameters there (a route may say allowInPath: [semicolon]).',
  'control-character': 'A control character, as it is or encoded.',
  'double-encoding': 'Encoded twice: a backend that decodes twice would see another path.',
  'percent-encoding': 'A % that is followed by no two hexadecimal digits.',
  'utf-8': 'The encoded bytes are no UTF-8.',
  'raw-character': 'A character that must be percent-encoded.',
  'lax-reading':
    'A backend that ignores case, blanks, dots at the end or a format such as .json would read this path as that of another route.'
}

const TOKEN: Readonly<Record<string, string>> = {
  'no-token': 'A valid token is needed, and there is none.',
  expired: 'The token has expired.',
  'bad-signature': 'The token is not signed with any of the current secrets.',
  'bad-header': 'The header of the token is not that of a token of this gateway.',
  'bad-claims': 'The claims of the token are not those of a token of this gateway.',
  'issued-in-the-future': 'The token says it was issued in the future.',
  'not-yet-valid': 'The token is not valid yet.',
  'lives-too-long': 'The token lives longer than this gateway lets any token live.'
}

/** One or two sentences on why; what a client gets is not repeated. */
export const reasonInWords = (decision: Decision, match: RouteMatch, asker: NamedAsker): string => {
  const { reason } = decision
  const roles = match.route?.roles?.join(' or ') ?? ''
  switch (reason) {
    case 'public':
      return 'The route is public: no token is looked at, and no identity is passed on.'
    case 'socketio':
      return 'The HTTP side of a Socket.IO route needs no token; each namespace asks for one at CONNECT.'
    case 'any-valid-token':
      return `The route asks for no role${match.route?.requireAssigned ? ', only for assigned people' : ''}.`
    case 'has-role':
      return `The route asks for ${roles}, and ${asker.name} has it.`
    case 'role-missing':
      return `The route asks for ${roles}, and ${asker.name} has ${roleWords(asker)}.`
    case 'cloud-unassigned':
      return 'Anybody can have an account at this cloud provider, and an Admin has not yet given this one a profile and an area (or CLOUDIDP_ALLOWED_TENANTS names no tenant).'
    case 'unassigned':
      return 'The route asks for people with a profile and an area, and an Admin has not yet given both.'
    case 'method':
      return `A route has this path, but none takes this method; allowed: ${match.refusal === 'method' ? match.allowed.join(', ') : ''}.`
    case 'no-route':
      return 'No route has this path.'
    default:
      return unusual(reason, match)
  }
}

const roleWords = ({ user }: NamedAsker): string =>
  user === undefined || user.profiles.length === 0 ? 'no profile' : `only ${user.profiles.join(', ')}`

const unusual = (reason: string, match: RouteMatch): string => {
  const token = TOKEN[reason]
  if (token === undefined) return BAD_PATH[reason] ?? reason
  // The same answer as on a private path: nobody without a token learns which paths exist.
  if (match.refusal === 'no-route') return `No route has this path; without a valid token that is not told. ${token}`
  if (match.refusal === 'method') return `No route takes this method here; without a token that is not told. ${token}`
  return token
}
