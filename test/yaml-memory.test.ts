// Reading with the memory of the text before gives what reading the whole text gives, whatever was edited.
import fc from 'fast-check'
import t from 'tap'
import { readYaml, type YamlDocument } from '../gateway/routes/yaml-document.ts'
import { createYamlMemory } from '../gateway/routes/yaml-memory.ts'

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

const FRAGMENTS = [
  '\n',
  ' ',
  '  ',
  '- ',
  '- path: /z\n',
  '  - path: /z\n    upstream: app\n',
  ': ',
  '"',
  "'",
  '|\n',
  '#'
]
const MORE = [
  '&a ',
  '*a',
  '!t ',
  '---\n',
  '...\n',
  '%YAML 1.1\n',
  '{',
  '[',
  ']',
  '}',
  ',',
  '\t',
  '\r\n',
  'yes',
  '? ',
  '\ufeff'
]

const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  removed: fc.nat(30),
  added: fc.array(fc.constantFrom(...FRAGMENTS, ...MORE), { maxLength: 3 })
})

const apply = (text: string, { at, removed, added }: { at: number; removed: number; added: string[] }): string => {
  const start = Math.floor(at * text.length)
  return text.slice(0, start) + added.join('') + text.slice(start + removed)
}

t.test('after any edits it says what reading the whole text says', async () => {
  fc.assert(
    fc.property(file, fc.array(edit, { minLength: 1, maxLength: 4 }), (first, edits) => {
      const read = createYamlMemory('routes')
      const texts = [first]
      for (const each of edits) texts.push(apply(texts.at(-1) ?? '', each))
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
  const read = createYamlMemory('routes')
  const list = (paths: readonly string[]) =>
    `upstreams: {}\nroutes:\n${paths.map(path => `  - path: ${path}\n    roles: [Admin]\n`).join('')}`
  const routesOf = (document: YamlDocument): unknown[] => Reflect.get(document.value as object, 'routes')
  const before = routesOf(read(list(['/a', '/b', '/c', '/d']), FILE))
  const after = routesOf(read(list(['/a', '/new', '/other', '/c', '/d']), FILE))
  t.strictSame(
    after.map(route => before.indexOf(route)),
    [0, -1, -1, 2, 3]
  )
  const shorter = routesOf(read(list(['/a', '/c', '/d']), FILE))
  t.equal(shorter.at(-1), before.at(-1))
})
