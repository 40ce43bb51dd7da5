// Reads YAML: what is JSON too has the value that JSON.parse gives it; nothing else has a key or a prototype of its own making.
import { readYaml } from '../../../../gateway/route-files/parse.ts'
import { Fault, type Target } from '../engine.ts'

const jsonOf = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** Keys in one order, and `-0` as the number that JSON writes it as. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner
  )

const hasPrototype = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hasPrototype)
  return Object.getPrototypeOf(value) !== null || Object.values(value).some(hasPrototype)
}

/** Keys that come twice are refused here, and overwritten there. */
const hasTwin = (text: string): boolean => {
  const keys = [...text.matchAll(/"((?:[^"\\]|\\.)*)"\s*:/g)].map(([, key]) => key)
  return new Set(keys).size < keys.length
}

export const yaml: Target = {
  name: 'yaml',
  words: [
    ...[
      '\n',
      '\n  ',
      '- ',
      ': ',
      ', ',
      '{',
      '}',
      '[',
      ']',
      '"',
      "'",
      '#',
      '&a ',
      '*a',
      '<<: ',
      '!!str ',
      '!x ',
      '---\n',
      '...\n',
      '|\n',
      '>-\n'
    ],
    ...[
      'null',
      '~',
      'true',
      'no',
      '017',
      '0o17',
      '1e3',
      '.inf',
      '1.10',
      '12:30',
      '__proto__',
      'constructor',
      '\t',
      '\xef\xbb\xbf',
      '? ',
      '%YAML 1.1\n'
    ]
  ],
  seeds: [
    'routes:\n  - { path: /x, upstream: back, roles: [Agente] }\n',
    '{"a": [1, "b", null, true], "c": {"d": -0.5e3}}',
    'a: &x { b: 1 }\nc: *x\n',
    'text: |\n  line\n  line\nother: >-\n  folded\n',
    '"a": "\\u0041\\n"\n'
  ],
  run(input) {
    const text = Buffer.from(input, 'latin1').toString('utf8')
    const { value, complaints } = readYaml(text, 'f.yaml')
    if (complaints.some(({ line, column }) => !(line >= 1 && column >= 1)))
      throw new Fault('a complaint without a place')
    if (complaints.length > 0)
      return complaints
        .map(({ message }) => message.replace(/["'][^"']*["']|\d+/g, ''))
        .slice(0, 2)
        .join()
    if (hasPrototype(value)) throw new Fault('an object has a prototype')
    const json = jsonOf(text)
    if (json !== undefined && !hasTwin(text) && !/[\\\r]/.test(text) && canonical(json.value) !== canonical(value))
      throw new Fault('JSON has another value as YAML')
    return `${json !== undefined} ${canonical(value)?.replace(/\w+/g, 'a').slice(0, 30)}`
  }
}
