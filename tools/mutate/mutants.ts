// Makes mutants of a module: each is one small change of meaning, as a text for a range of the source.
import { type AnyNode, type BinaryExpression, type Literal, type Node, parse } from 'acorn'
import { ancestor } from 'acorn-walk'
import { regexMutants } from './regex-mutants.ts'

export interface Mutant {
  readonly start: number
  readonly end: number
  readonly original: string
  readonly replacement: string
}

const SWAPPED: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
  '**': ['*'],
  '&': ['|'],
  '|': ['&'],
  '^': ['&'],
  '<<': ['>>'],
  '>>': ['<<'],
  '>>>': ['<<'],
  '&&': ['||'],
  '||': ['&&'],
  '??': ['&&'],
  '+=': ['-='],
  '-=': ['+='],
  '*=': ['/='],
  '|=': ['&='],
  '&=': ['|='],
  '^=': ['|='],
  '<<=': ['>>='],
  '>>>=': ['<<='],
  '??=': ['='],
  '++': ['--'],
  '--': ['++']
}

/** Methods whose counterpart, or absence (''), a test should notice. */
const METHODS: Readonly<Record<string, string>> = {
  some: 'every',
  every: 'some',
  startsWith: 'endsWith',
  endsWith: 'startsWith',
  indexOf: 'lastIndexOf',
  lastIndexOf: 'indexOf',
  min: 'max',
  max: 'min',
  floor: 'ceil',
  ceil: 'floor',
  toLowerCase: '',
  toUpperCase: '',
  trim: '',
  slice: '',
  subarray: '',
  filter: '',
  sort: '',
  toSorted: '',
  reverse: '',
  concat: ''
}

/** @param source JavaScript, or TypeScript whose types were replaced with blanks */
export const mutantsOf = (source: string): Mutant[] => {
  const found: Mutant[] = []
  const textOf = ({ start, end }: Node) => source.slice(start, end)
  const add = (start: number, end: number, replacement: string) => {
    const original = source.slice(start, end)
    if (original !== replacement) found.push({ start, end, original, replacement })
  }
  const replace = (node: Node, replacement: string) => add(node.start, node.end, replacement)
  /** The operator between two operands. */
  const swap = (operator: string, from: number, to: number) => {
    const at = source.indexOf(operator, from)
    if (at === -1 || at >= to) return
    for (const other of SWAPPED[operator] ?? []) add(at, at + operator.length, other)
  }
  const test = (node: Node | null | undefined, values: readonly string[]) => {
    if (node) for (const value of values) replace(node, value)
  }

  ancestor(parse(source, { ecmaVersion: 'latest', sourceType: 'module' }), {
    IfStatement: node => test(node.test, ['true', 'false']),
    ConditionalExpression: node => test(node.test, ['true', 'false']),
    WhileStatement: node => test(node.test, ['false']),
    DoWhileStatement: node => test(node.test, ['false']),
    ForStatement: node => test(node.test, ['false']),
    BinaryExpression: node => {
      if (node.operator !== '+' || !isText(node)) swap(node.operator, node.left.end, node.right.start)
    },
    LogicalExpression: node => swap(node.operator, node.left.end, node.right.start),
    AssignmentExpression: node => {
      if (node.operator !== '=' && !(node.operator === '+=' && isTextNode(node.right)))
        swap(node.operator, node.left.end, node.right.start)
    },
    UpdateExpression: node => swap(node.operator, node.prefix ? node.start : node.argument.end, node.end),
    UnaryExpression: node => {
      if ('!~-'.includes(node.operator)) replace(node, textOf(node.argument))
    },
    ExpressionStatement: node => {
      if (node.directive === undefined) replace(node, ';')
    },
    ReturnStatement: node => {
      if (node.argument && textOf(node.argument) !== 'undefined') replace(node.argument, 'undefined')
    },
    BreakStatement: node => replace(node, ';'),
    ContinueStatement: node => replace(node, ';'),
    ArrowFunctionExpression: node => {
      if (node.expression && textOf(node.body) !== 'undefined') replaceBody(node.body)
    },
    ArrayExpression: node => {
      if (node.elements.length > 0) replace(node, '[]')
    },
    ObjectExpression: node => {
      if (node.properties.length > 0) replace(node, '{}')
    },
    MemberExpression: node => {
      if (node.optional) add(node.object.end, node.property.start, node.computed ? '[' : '.')
    },
    CallExpression: node => {
      const { callee } = node
      if (node.optional) add(callee.end, callee.end + 2, '')
      if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return
      const other = Object.hasOwn(METHODS, callee.property.name) ? METHODS[callee.property.name] : undefined
      if (other === undefined) return
      if (other !== '') replace(callee.property, other)
      else replace(node, textOf(callee.object))
    },
    TemplateLiteral: (node, _state, ancestors) => {
      const isTagged = ancestors.at(-2)?.type === 'TaggedTemplateExpression'
      if (!isTagged && !isProse(textOf(node)) && textOf(node) !== '``') replace(node, '``')
    },
    Literal: (node, _state, ancestors) => mutateLiteral(node, ancestors)
  })

  function replaceBody(body: Node) {
    // An object as a body stands in parentheses.
    const isWrapped = source[body.start] === '{'
    if (!isWrapped) replace(body, 'undefined')
  }
  function mutateLiteral(node: Literal, ancestors: AnyNode[]) {
    const parent = ancestors.at(-2)
    if (parent === undefined || isName(node, parent)) return
    if (node.regex) {
      for (const regex of regexMutants(node.regex.pattern)) replace(node, `/${regex}/${node.regex.flags}`)
      return
    }
    const { value } = node
    if (typeof value === 'boolean') replace(node, String(!value))
    if (typeof value === 'number') replace(node, String(value + 1))
    if (typeof value === 'bigint') replace(node, `${value + 1n}n`)
    if (typeof value === 'string' && !isProse(value)) replace(node, value === '' ? "'mutated'" : "''")
  }
  return found.sort((a, b) => a.start - b.start || a.end - b.end)
}

/** Sentences are for people: no test asserts them word by word. */
const isProse = (text: string): boolean => /\p{L}{2,}[,:;.]? \p{L}/u.test(text)

const isTextNode = (node: Node): boolean =>
  node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof (node as Literal).value === 'string')

/** Whether a `+` joins texts, of which nothing can be subtracted. */
const isText = ({ left, right }: BinaryExpression): boolean =>
  isTextNode(left) || isTextNode(right) || (left.type === 'BinaryExpression' && isText(left))

/** Whether a literal names a module or a property. */
const isName = (node: Node, parent: AnyNode): boolean =>
  /^(?:Import|Export)/.test(parent.type) || (parent.type === 'Property' && parent.key === node && !parent.computed)
