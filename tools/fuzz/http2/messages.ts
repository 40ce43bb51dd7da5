// Makes up HTTP/2 requests with everything in them that servers may disagree about (RFC 9113 §8).
import type { Random } from '../mutate.ts'
import type { Field } from '../readings/http-lines.ts'

export interface Message {
  /** Its `x-n`, by which it is known wherever it arrives. */
  readonly id: string
  /** With pseudo-fields; Latin-1. */
  fields: Field[]
  /** Contents of DATA frames. */
  body: string[]
  /** What its last frame is; `reset`: the client takes it back. */
  end: 'headers' | 'data' | 'trailers' | 'reset'
  trailers: Field[]
}

const list = (text: string): string[] => text.split('|')
const fieldsOf = (text: string): Field[] =>
  list(text).map(field => [field.slice(0, field.indexOf('=')), field.slice(field.indexOf('=') + 1)])

const METHODS = list('GET|GET|GET|HEAD|POST|POST|PUT|DELETE|PATCH|OPTIONS')
const PATHS = list("/|/a|/a/b?c=d|/%41?x|/a?b?c|/{x}|/a?b=\xc3\xa7|/-._~!$&'()*+,=:@")
const AUTHORITIES = list('gw.example|gw.example|gw.example:443|[::1]:80|127.0.0.1|GW.Example')
const FIELDS = fieldsOf(
  'accept=*/*|x-empty=|x-tab=a\tb|x-raw=\x80\xff|x-list=a|x-list=b, c|te=trailers|cookie=a=b; c="d"|cookie=e=f|x-user-id=1|' +
    `expect=100-continue|content-type=a/b; c="\\""|!#$%&'*+-.^_\`~=1|x-long=${'y'.repeat(300)}`
)
const DATA = list(`|x|hello|GET / HTTP/1.1\r\nHost: a\r\n\r\n|0\r\n\r\n|\r\n|\0\xff|${'y'.repeat(3000)}`)
const TRAILERS = fieldsOf('t=1|x-user-id=1|t=')

const PSEUDO = list(':method|:scheme|:authority|:path')
const CONTROLS = list('\r|\n|\r\n|\0|\x01|\x7f|\r\nx-user-id: 1|\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n')
const ODD_METHODS = list('|get|G T|CONNECT|FOO|GET |G\xc9T|TRACE|M-SEARCH|PRI|GET / HTTP/1.1\r\nx:|G(T')
const ODD_PATHS = list(
  '|*|a|?a|http://gw.example/a|http://other/|/a#b|/a b|/a HTTP/1.1|/\x80|//a|/a\\b|/%zz|/../a|/a?b#c|/a\tb|/a%00|/a?\x7f'
)
const ODD_SCHEMES = list('|http|HTTPS|ftp|https |h\r\n|1')
const ODD_HOSTS = list(
  '|u@gw.example|gw example|gw.example/x|gw.example, b|gw.example:|gw.example:x|a%|%41|a\\b|a\x80|[::1|:80|gw.example?x|gw_x|a\r\nb'
)
const ODD_NAMES = list('|x y|x:y| x|x\t|x\x7f|x\x80|x(|x"|x/y|x\0|Abc|x-A|HOST|Cookie')
const ODD_VALUES = list(' a|a |\ta|a\t| |a\x1fb|\x85|\xa0')
const CONNECTION_FIELDS = list('connection|keep-alive|proxy-connection|upgrade|transfer-encoding')
const CRUMBS = fieldsOf('cookie=|cookie=a=b|cookie=a=b;|cookie=;|cookie=c|cookie=d=e, f')
const MISPLACED = fieldsOf(
  ':path=/b|:method=GET|:authority=gw.example|:x=|:protocol=|:protocol=websocket|:status=200|:=|:Path='
)
const ODD_TRAILERS = fieldsOf(
  ':path=/b|T=1|content-length=3|te=trailers|host=b|connection=close|t=a\r\nb|=1|x y=1|transfer-encoding=chunked'
)

const shuffled = <T>(items: readonly T[], random: Random): T[] => {
  const left = [...items]
  return items.flatMap(() => left.splice(random.below(left.length), 1))
}

const wellFormed = (id: string, random: Random): Message => {
  const values = [random.pick(METHODS), 'https', random.pick(AUTHORITIES), random.pick(PATHS)]
  const pseudo = PSEUDO.map((name, index): Field => [name, values[index] ?? ''])
  const fields = shuffled([...random.some(FIELDS, 3), ['x-n', id] as const], random)
  const body = random.below(2) === 0 ? [] : random.some(DATA, 3)
  if (random.below(3) === 0) fields.push(['content-length', `${body.join('').length}`])
  const end = body.length === 0 && random.below(4) > 0 ? 'headers' : 'data'
  const message: Message = { id, fields: [...shuffled(pseudo, random), ...fields], body, end, trailers: [] }
  return random.below(12) > 0 ? message : { ...message, end: 'trailers', trailers: random.some(TRAILERS, 2) }
}

/** Behind the pseudo-fields, before or behind the others. */
const add = (message: Message, random: Random, ...fields: Field[]) => {
  const first = message.fields.findIndex(([name]) => !name.startsWith(':'))
  message.fields.splice(first + random.below(message.fields.length - first + 1), 0, ...fields)
}
const remove = (message: Message, name: string) => {
  message.fields = message.fields.filter(field => field[0] !== name)
}
const set = (message: Message, name: string, value: string) => {
  message.fields = message.fields.map(field => (field[0] === name ? [name, value] : field))
}
const withControl = (text: string, random: Random): string => {
  const at = random.below(text.length + 1)
  return text.slice(0, at) + random.pick(CONTROLS) + text.slice(at)
}

/** Each makes one thing odd; what is wrong then is for the model to say. */
const SLIPS: readonly ((message: Message, random: Random) => void)[] = [
  (message, random) =>
    add(message, random, [
      random.pick(CONNECTION_FIELDS),
      random.pick(list('|close|keep-alive|x-list|chunked|websocket'))
    ]),
  (message, random) => add(message, random, ['te', random.pick(list('|gzip|trailers, gzip|Trailers|trailers;q=1'))]),
  (message, random) => remove(message, random.pick(PSEUDO)),
  (message, random) => message.fields.unshift([random.pick(PSEUDO), random.pick(list('|GET|https|/b|gw.example'))]),
  (message, random) => message.fields.push(random.pick(MISPLACED)),
  (message, random) => message.fields.unshift(random.pick(MISPLACED)),
  (message, random) => set(message, ':path', random.pick(ODD_PATHS)),
  (message, random) => set(message, ':path', withControl('/a/b?c', random)),
  (message, random) => set(message, ':method', random.pick(ODD_METHODS)),
  (message, random) => set(message, ':scheme', random.pick(ODD_SCHEMES)),
  (message, random) => set(message, ':authority', random.pick(ODD_HOSTS)),
  (message, random) => {
    const authority = message.fields.find(([name]) => name === ':authority')?.[1] ?? ''
    const hosts = [authority, authority.toUpperCase(), `${authority}:443`, 'other.example', '', `${authority},b`]
    add(message, random, ...random.some(hosts, 2).map((host): Field => ['host', host]))
    if (random.below(3) === 0) remove(message, ':authority')
  },
  (message, random) => {
    const length = message.body.join('').length
    const odd = list(
      `${length + 1}|${length - 1}|+${length}| ${length}|0${length}|${length}x|${length}, ${length}||18446744073709551616`
    )
    remove(message, 'content-length')
    add(message, random, ['content-length', random.pick(odd)])
    if (random.below(3) === 0) add(message, random, ['content-length', `${length}`])
  },
  (message, random) =>
    add(message, random, [random.pick(list('x-a|cookie|host|x-user-id')), withControl('ab', random)]),
  (message, random) => add(message, random, ['x-a', random.pick(ODD_VALUES)]),
  (message, random) => add(message, random, [random.pick([...ODD_NAMES, withControl('x', random)]), '1']),
  (message, random) => add(message, random, ...random.some(CRUMBS, 5)),
  (message, random) => {
    message.end = 'trailers'
    message.trailers = [...random.some(TRAILERS, 1), random.pick(ODD_TRAILERS)]
  },
  message => {
    message.end = 'reset'
  }
]

export const makeMessage = (id: string, random: Random): Message => {
  const message = wellFormed(id, random)
  for (let slips = random.below(5) - 1; slips > 0; slips--) random.pick(SLIPS)(message, random)
  return message
}
