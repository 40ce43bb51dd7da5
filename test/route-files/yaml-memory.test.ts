// Reading with the memory of the text before gives what reading the whole text gives, whatever was edited.
import fc from 'fast-check'
import t from 'tap'
import { readYaml, type YamlDocument } from '../../gateway/route-files/parse.ts'
import { createYamlMemory } from '../../gateway/route-files/yaml-memory.ts'

const FILE = 'routes.yaml'

const PARTS = [['upstreams', 'app'], ['upstreams', 'app', 'url'], ['routes'], ['tests', 0], ['absent'], []] as const
const PARTS_OF_ENTRY = [[], ['path'], ['roles', 0], ['absent']] as const

/** All that a reader may learn from a document. */
const told = (document: YamlDocument, count: number) => ({
  value: JSON.stringify(document.value),
  complaints: document.complaints,
  places: [
    ...PARTS.flatMap(path => [document.placeOf(path, 'key'), document.placeOf(path)]),
    ...Array.from({ length: count }, (_, index) =>
      PARTS_OF_ENTRY.map(path => document.placeOf(['routes', index, ...path]))
    ).flat()
  ]
})

const countOf = ({ value }: YamlDocument): number => {
  const routes: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'routes') : undefined
  return Array.isArray(routes) ? routes.length : 0
}

const entry = fc.constantFrom(
  '- path: /a\n  roles: [Admin, User]\n',
  '- path: "/b" # why\n  upstream: app\n',
  '- {path: /c, public: true}\n',
  "- path: '/d\n    e'\n",
  '- path: |\n    /f\n    - path: /no\n  note: >-\n    folded\n\n    text\n',
  '- path: /g\n  roles:\n  - Admin\n  - User\n',
  '- path: /h\n  websocket:\n    origins:\n      - https://x\n\n',
  '- path: /i\n# - path: /comment\n',
  '- path: /j\n  note: plain\n    text\n',
  '- path: /k\r\n  upstream: app\r\n'
)

const HEADS = ['', '---\n', '# first\n', 'upstreams:\n  app:\n    url: http://a\n', 'note: |\n  - path: /x\n']
const TAILS = ['', '# last\n', 'tests:\n  - GET /a\n', 'upstreams:\n  app:\n    url: http://b\n', '...\n']

const file = fc
  .record({
    head: fc.constantFrom(...HEADS),
    indent: fc.constantFrom('', '  ', '    '),
    entries: fc.array(entry, { minLength: 1, maxLength: 6 }),
    tail: fc.constantFrom(...TAILS)
  })
  .map(({ head, indent, entries, tail }) => {
    const list = entries.map(text => text.replace(/^(?=.)/gm, indent)).join('')
    return `${head}routes:\n${list}${tail}`
  })

const FRAGMENTS = fc.constantFrom(
  ...['\n', ' ', '  ', '- ', ': ', '"', "'", '|\n', '#', '{', '[', ']', '}', ',', '\t', '\r\n', 'yes', '? ', '\ufeff'],
  ...['&a ', '*a', '!t ', '---\n', '...\n', '%YAML 1.1\n', '\n#x\n', ':\n#x\n      y\n', '>1-\n', ':b', '- - a\n'],
  ...[
    '- path: /z\n',
    '  - path: /z\n    upstream: app\n',
    '  - {"path":"/y"}\n',
    'tests:\n',
    'routes:\n',
    '  - path:\n'
  ]
)

type Edit = (text: string) => string
const share = fc.double({ min: 0, max: 1, noNaN: true })

const splice = (text: string, at: number, removed: number, added: string): string =>
  text.slice(0, at) + added + text.slice(at + removed)

const edit: fc.Arbitrary<Edit> = fc.oneof(
  fc.tuple(share, fc.nat(30), fc.array(FRAGMENTS, { maxLength: 3 })).map(
    ([at, removed, added]): Edit =>
      text =>
        splice(text, Math.floor(at * text.length), removed, added.join(''))
  ),
  // Cut off, as by a full disk.
  share.map(
    (at): Edit =>
      text =>
        text.slice(0, Math.floor(at * text.length))
  ),
  fc.tuple(share, fc.nat(4), fc.array(FRAGMENTS, { maxLength: 2 })).map(
    ([at, removed, added]): Edit =>
      text =>
        text
          .split(/(?<=\n)/)
          .toSpliced(Math.floor(at * text.split('\n').length), removed, ...added)
          .join('')
  )
)

t.test('after any edits it says what reading the whole text says', async () => {
  fc.assert(
    fc.property(file, fc.array(edit, { minLength: 1, maxLength: 4 }), (first, edits) => {
      const { read } = createYamlMemory('routes')
      const texts = [first]
      for (const each of edits) texts.push(each(texts.at(-1) ?? ''))
      for (const text of texts) {
        const whole = readYaml(text, FILE)
        const count = countOf(whole)
        const expected = told(whole, count)
        const actual = told(read(text, FILE), count)
        if (JSON.stringify(actual) !== JSON.stringify(expected)) {
          throw new Error(`${JSON.stringify(texts)}\n${JSON.stringify(actual)}\n${JSON.stringify(expected)}`)
        }
      }
    }),
    { numRuns: 5000 }
  )
})

t.test('entries that stayed are not read again', async t => {
  const { read } = createYamlMemory('routes')
  const list = (paths: readonly string[]) =>
    `upstreams: {}\nroutes:\n${paths.map(path => `  - path: ${path}\n    roles: [Admin]\n`).join('')}`
  const routesOf = (document: YamlDocument): unknown[] => Reflect.get(document.value as object, 'routes')
  const before = routesOf(read(list(['/a', '/b', '/c', '/d', '/e']), FILE))
  const after = routesOf(read(list(['/a', '/b', '/new', '/other', '/d', '/e']), FILE))
  // The neighbours are, and must come out the same.
  t.strictSame(
    after.map(route => before.indexOf(route)),
    [0, -1, -1, -1, -1, 4]
  )
  t.strictSame([after[1], after[4]], [before[1], before[3]])
  const shorter = routesOf(read(list(['/a', '/b', '/d', '/e']), FILE))
  t.equal(shorter[0], before[0])
})

t.test('what followed the list and was cut off is gone', async t => {
  const { read } = createYamlMemory('routes')
  const list = 'routes:\n  - path: /a\n  - path: /b\n    roles: [Admin]\n'
  read(`${list}upstreams:\n  app:\n    url: http://a\n`, FILE)
  t.strictSame(Object.keys(read(list, FILE).value as object), ['routes'])
})

t.test('an entry that takes the next ones in does so here too', async t => {
  const { read } = createYamlMemory('routes')
  const [before, after] = ['  - path: /x\n', '  - {"path":"/b","roles":["Admin"]}\n'.repeat(3)]
  read(`routes:\n${before}  - path: /a\n    public: true\n${after}`, FILE)
  const swallowing = `routes:\n${before}  - public: true\n    path:\n#was /x\n      /a\n${after}`
  t.strictSame(read(swallowing, FILE).value, readYaml(swallowing, FILE).value)
})

t.test('a file that is no longer read is forgotten', async t => {
  const { read, forgetOthers } = createYamlMemory('routes')
  const text = 'routes:\n  - path: /a\n  - path: /b\n  - path: /c\n'
  const first = (file: string): unknown => Reflect.get(read(text, file).value as object, 'routes')[0]
  const [kept, dropped] = [first('kept'), first('dropped')]
  forgetOthers()
  t.equal(first('kept'), kept)
  forgetOthers()
  t.not(first('dropped'), dropped)
})
