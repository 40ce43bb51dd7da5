// Describes a decision in a sentence that requires no knowledge of the code.

import { formatNetwork } from '../values/addresses.ts'
import { type Asker, allowedMethods, type Decision } from './decide.ts'
import type { Route, RouteMatch } from './route.ts'

interface NamedAsker extends Asker {
  /** As people write it. */
  readonly name: string
}

const PLAIN: Readonly<Record<string, string>> = {
  'not-absolute': 'The path does not begin with /.',
  fragment: 'A # is not allowed in a request; some backends would cut the path there.',
  'double-slash': 'Two slashes in a row: some backends merge them, others do not.',
  'dot-segment': 'A dot segment: a backend would resolve it to a different path.',
  'encoded-slash': '%2F: some backends read it as a slash (a route can allow it with allowInPath: [encodedSlash]).',
  backslash: 'A backslash: some backends read it as a slash.',
  semicolon: 'A semicolon: some backends cut parameters there (a route can allow it with allowInPath: [semicolon]).',
  'control-character': 'A control character, literal or encoded.',
  'double-encoding': 'Double encoding: a backend that decodes twice would see a different path.',
  'percent-encoding': 'A % that is not followed by two hexadecimal digits.',
  'utf-8': 'The encoded bytes are not valid UTF-8.',
  'raw-character': 'A character that must be percent-encoded.',
  destination:
    'What a COPY or MOVE writes to, or a MOVE deletes, is not a path of this gateway that leads to the same upstream.',
  'lax-reading':
    'A backend that ignores case, spaces, trailing dots, an extension such as .json or a script such as /index.php, or that serves index files, would read this path as one of another route.',
  public: 'The route is public: no token is checked, and no identity is passed on.',
  socketio: 'The HTTP side of a Socket.IO route needs no token; each namespace requires one at CONNECT.',
  'engineio-path': 'A Socket.IO route answers at its own path only, and forwards nothing below it.',
  'engineio-method': 'The HTTP side of a Socket.IO route has the methods GET and POST only.',
  'cloud-unassigned':
    'Anyone can have an account at this cloud provider, and an Admin has not yet assigned a profile and an area to this one (alternatively, set CLOUDIDP_ALLOWED_TENANTS).',
  unassigned: 'The route only admits people with a profile and an area, and an Admin has not yet assigned both.',
  'no-route': 'No route has this path.'
}

const TOKEN: Readonly<Record<string, string>> = {
  'no-token': 'A valid token is required, and there is none.',
  expired: 'The token has expired.',
  'bad-signature': 'The token is not signed with any of the current secrets.',
  'bad-header': 'The header of the token is not that of a token from this gateway.',
  'bad-claims': 'The claims of the token are not those of a token from this gateway.',
  'issued-in-the-future': 'According to its claims, the token was issued in the future.',
  'not-yet-valid': 'The token is not valid yet.',
  'lives-too-long': 'The token is valid for longer than any token that this gateway issues.',
  'foreign-host': 'The token belongs in the session cookie of another host, and is accepted there only.',
  'foreign-address': 'The service account may not use its token from this address.'
}

const NO_RIGHT_TO_WRITE =
  'The path itself admits this request, but a MOVE also needs the right to DELETE it, and COPY and MOVE the right to write to their Destination.'

/** Explains the decision in one or two sentences, without repeating the response. */
export const reasonInWords = ({ reason, decision }: Decision, match: RouteMatch, asker: NamedAsker): string => {
  const roles = match.route?.roles?.join(' or ') ?? ''
  switch (reason) {
    case 'any-valid-token':
      return `The route requires no role${match.route?.requireAssigned ? ', but only admits assigned people' : ''}.`
    case 'has-role':
      return `The route requires ${roles}, and ${asker.name} has it.`
    case 'role-missing':
      return `The route requires ${roles}, and ${asker.name} has ${roleWords(asker)}.`
    case 'address':
      return addressInWords(routesOf(match), asker)
    case 'destination':
      return decision === 403 ? NO_RIGHT_TO_WRITE : (PLAIN.destination ?? reason)
    case 'method':
      return `Routes with this path exist, but none for this method; allowed: ${allowedMethods(routesOf(match), asker.address).join(', ')}.`
    default:
      return TOKEN[reason] === undefined ? (PLAIN[reason] ?? reason) : undisclosed(TOKEN[reason], match)
  }
}

const routesOf = (match: RouteMatch): readonly Route[] =>
  match.refusal === 'method' ? match.routes : match.route === undefined ? [] : [match.route]

/** Why a client is refused whose address is in the `from` of none of these routes. */
const addressInWords = (routes: readonly Route[], { address }: Asker): string => {
  const networks = [...new Set(routes.flatMap(({ from = [] }) => from.map(formatNetwork)))].join(', ')
  const whose = address === undefined ? 'write "from 10.1.2.3" after who asks to name an address' : `not ${address}`
  return `The route admits only clients from ${networks} (${whose}).`
}

const roleWords = ({ user }: NamedAsker): string =>
  user === undefined || user.profiles.length === 0 ? 'no profile' : `only ${user.profiles.join(', ')}`

/** The same response as on a private path, so that clients without a token cannot find out which paths exist. */
const undisclosed = (token: string, { refusal }: RouteMatch): string => {
  if (refusal === 'no-route') return `No route has this path; without a valid token, this is not disclosed. ${token}`
  if (refusal !== 'method') return token
  return `No route with this path has this method; without a valid token, this is not disclosed. ${token}`
}
