// Lists the options of a route that have a value: how each is written, how it is validated, and what the route stores.
import type { AcceptedWarning, App, Route, WrittenRoute } from '../../routes/route.ts'
import { type Network, parseNetwork } from '../../values/addresses.ts'
import { parseSize } from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'
import {
  type Accepted,
  count,
  defineTimer,
  duration,
  list,
  record,
  type Schema,
  size,
  text,
  word
} from '../schema/forms.ts'
import { defineSocketIo, defineWebSocket, socketioSchema, websocketSchema } from './define-sockets.ts'

const RATE_LIMIT = record(
  'a rate limit',
  'Rate limit of this route, in addition to the global one.',
  {
    max: count('Requests per window.', 20, { maximum: 1e9 }),
    window: duration('Length of the window.', '1m'),
    by: word(['ip', 'user', 'both'], {
      title: 'ip, user or both',
      description:
        'Whether requests are counted per client address (ip), per person (user) or per pair of these (both).',
      default: 'ip',
      examples: ['user']
    })
  },
  { required: ['max', 'window'], examples: [{ max: 20, window: '1m', by: 'user' }] }
)

const FORMS = ['encodedSlash', 'semicolon', 'doubleSlash', 'extension'] as const

const ALLOW_IN_PATH = list(
  `a list of ${FORMS.join(', ')}`,
  'Ambiguous forms that the backend needs in paths. Both readings must lead to this route. With extension, the extension of the last segment (.json) and a script on the way (index.php/…) are taken as parts of names.',
  word(FORMS),
  ['encodedSlash']
)

const FROM = list(
  'a list of networks',
  'Networks from which clients may come. Any other client is refused (403), logged in or not. It restricts a route, and replaces no login.',
  text('an IP address or a CIDR block', 'Network of clients.', '10.0.0.0/8'),
  ['10.0.0.0/8', '2001:db8::/32']
)

const ACCEPT = list(
  'a list of wider-methods, wider-paths',
  'Warnings of `portaria check` that are intended: a less strict route serves the methods, or the paths below, that this route leaves to it.',
  word<AcceptedWarning>(['wider-methods', 'wider-paths']),
  ['wider-methods']
)

// RFC 1123 §2.1, and underscores, which names of services have.
const LABEL = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const NAME = new RegExp(String.raw`^(?:\*\.)?(?=.{1,253}$)${LABEL}(?:\.${LABEL})*$`)

const HOSTS: Schema<string | readonly string[]> = {
  ...list(
    'a host name or a list of them',
    'Hosts on which the route applies, without ports; *.corp.example stands for exactly one label. Of the routes that name the host of a request, or a wildcard if none does, one must match; those without this key apply to all other hosts.',
    { title: 'a host name', type: 'string' },
    ['grafana.corp.example']
  ),
  type: ['string', 'array'],
  examples: ['grafana.corp.example', ['wiki.corp.example', '*.apps.corp.example']]
}

const defineHosts = (written: string | readonly string[], say: Complain): readonly string[] => {
  const names = [written].flat().map((text, index) => {
    const fault = hostFault(text.toLowerCase())
    if (fault !== undefined) say(`"${text}" ${fault}`, 'host', ...(typeof written === 'string' ? [] : [index]))
    return text.toLowerCase()
  })
  return [...new Set(names)]
}

const hostFault = (name: string): string | undefined => {
  if (name === '*') return 'would be every host: leave "host" out'
  if (name.endsWith('.')) return 'must not end in a dot'
  const bare = name.replace(/^\*\./, '')
  // Browsers write international names as A-labels, and IPv4 addresses in four parts (URL Standard, host parsing).
  const sent = URL.canParse(`http://${bare}/`) ? new URL(`http://${bare}/`).hostname : undefined
  if (/[^!-~]/.test(name) && sent !== undefined) return `must be written as requests have it: ${sent}`
  if (/:\d+$/.test(name)) return 'must be written without its port: every port counts'
  if (!NAME.test(name) || sent === undefined)
    return 'is no host name such as grafana.corp.example, or *.corp.example for exactly one label in place of *'
  return sent === bare ? undefined : `must be written as requests have it: ${sent}`
}

const HERE = '/(?![/\\\\])[!-~]*'

const APP = record(
  'a map with name, description, icon and url',
  'Lists the route on /auth/apps for the people who may open it.',
  {
    name: text('a name', 'Name of the application.', 'Grafana', { maxLength: 64, pattern: '\\S' }),
    description: text('a text', 'What it is for, in a few words.', 'Dashboards', { maxLength: 200 }),
    icon: text(
      'a path that begins with /',
      'Picture on this origin. Without one, the first letter of the name is shown.',
      '/grafana/public/img/grafana_icon.svg',
      { maxLength: 2048, pattern: `^${HERE}$` }
    ),
    url: text(
      'a path that begins with /, or an address such as https://app.example.org/',
      'Where the application opens. Without it, the path of the route; required if that has :name in it.',
      '/grafana/d/home',
      { maxLength: 2048, pattern: `^(?:${HERE}|https?://[!-~]+)$` }
    )
  },
  { required: ['name'], examples: [{ name: 'Grafana', description: 'Dashboards' }] }
)

const defineApp = (data: Accepted<typeof APP>, say: Complain): App => {
  const { name, description = '', icon = '', url = '' } = data
  if (url !== '' && !URL.canParse(url, 'http://localhost')) say('not an address that a browser can open', 'app', 'url')
  return { name, description, icon, url }
}

const option = <Field extends keyof Route, T>(
  field: Field,
  schema: Schema<T>,
  define: (written: T, say: Complain) => Route[Field]
) => ({ field, schema, define })

function defineNetworks(written: readonly string[], say: Complain): readonly Network[] {
  return written.flatMap((text, index) => {
    const network = parseNetwork(text)
    if (network === undefined)
      say(`"${text}" is neither an IP address nor a CIDR block such as 10.0.0.0/8`, 'from', index)
    return network ?? []
  })
}

/** By their keys in the files. A new one needs an entry here, its field and default in `Route`, and the step that obeys it. */
export const ROUTE_OPTIONS = {
  host: option('host', HOSTS, defineHosts),
  rateLimit: option('rateLimit', RATE_LIMIT, ({ max, window, by = 'ip' }, say) => ({
    max,
    windowMs: defineTimer(window, say, 'rateLimit', 'window'),
    by
  })),
  from: option('from', FROM, defineNetworks),
  timeout: option(
    'timeoutMs',
    duration('Timeout of this route, instead of the one of its upstream.', '2m'),
    (written, say) => defineTimer(written, say, 'timeout')
  ),
  maxBody: option('maxBodyBytes', size('Maximum size of a request body, instead of MAX_BODY.', '10MB'), parseSize),
  allowInPath: option('allowInPath', ALLOW_IN_PATH, written => written),
  accept: option('accept', ACCEPT, written => written),
  websocket: option('websocket', websocketSchema, defineWebSocket),
  socketio: option('socketio', socketioSchema, defineSocketIo),
  app: option('app', APP, defineApp)
}

/** The fields of the options that are present. `data` has passed the schema. */
export const defineOptions = (data: Readonly<Record<string, unknown>>, say: Complain): Partial<WrittenRoute> => {
  const fields: Record<string, unknown> = {}
  for (const [name, { field, define }] of Object.entries(ROUTE_OPTIONS)) {
    const written = data[name]
    if (written !== undefined) fields[field] = define(written as never, say)
  }
  return fields
}
