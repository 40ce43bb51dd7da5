// What changes of meaning are made of a piece of code.
import { once } from 'node:events'
import t from 'tap'
import { EQUIVALENT } from '../../tools/mutate/equivalent.ts'
import { mutantsOf } from '../../tools/mutate/mutants.ts'
import { groupEnded, spawnGroup } from '../../tools/mutate/process-group.ts'
import { regexMutants } from '../../tools/mutate/regex-mutants.ts'

const changes = (source: string): string[] =>
  mutantsOf(source).map(({ start, end, replacement }) => source.slice(0, start) + replacement + source.slice(end))

t.test('comparisons, conditions and operators are changed one at a time', async t => {
  t.same(changes('const f = a => a < 1 && b'), [
    'const f = a => undefined',
    'const f = a => a <= 1 && b',
    'const f = a => a >= 1 && b',
    'const f = a => a < 2 && b',
    'const f = a => a < 1 || b'
  ])
  t.same(changes('if (a ?? b) { c() }'), [
    'if (true) { c() }',
    'if (false) { c() }',
    'if (a && b) { c() }',
    'if (a ?? b) { ; }'
  ])
  t.same(changes('x = -a + b'), [';', 'x = a + b', 'x = -a - b'])
  t.same(changes('for (;;) break'), ['for (;;) ;'])
})

t.test('literals, calls and chains are changed, sentences and names are not', async t => {
  t.ok(changes("f('ab', '', 0, true, [1])").includes("f('', '', 0, true, [1])"))
  t.ok(changes("f('ab', '', 0, true, [1])").includes("f('ab', 'mutated', 0, true, [1])"))
  t.ok(changes("f('ab', '', 0, true, [1])").includes("f('ab', '', 1, true, [1])"))
  t.ok(changes("f('ab', '', 0, true, [1])").includes("f('ab', '', 0, false, [1])"))
  t.ok(changes("f('ab', '', 0, true, [1])").includes("f('ab', '', 0, true, [])"))
  t.same(changes("import a from 'b'"), [])
  t.same(changes("log('Redis is away, every instance counts')"), [';'])
  t.ok(changes('a?.b').includes('a.b'))
  t.ok(changes('a?.[b]').includes('a[b]'))
  t.ok(changes('a?.(b)').includes('a(b)'))
  t.ok(changes('a.some(b)').includes('a.every(b)'))
  t.ok(changes('a.slice(b)').includes('a'))
  t.notOk(changes("'a' + b").includes("'a' - b"), 'nothing is subtracted from a text')
})

t.test('regular expressions are changed piece by piece', async t => {
  t.same(regexMutants('^[a-z]+$'), ['[a-z]+$', '^[^a-z]+$', '^[a-z]$', '^[a-z]+'])
  t.same(regexMutants('\\d{2}(?=x)'), ['\\D{2}(?=x)', '\\d(?=x)', '\\d{2}(?!x)'])
})

t.test('an endless test is killed with everything that it started, even if all of it ignores SIGTERM', async t => {
  // Output that ends: no process of the group holds the pipe any more.
  const start = async (script: string) => {
    const child = spawnGroup('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    const closed = once(child, 'close')
    await once(child.stdout ?? child, 'data')
    return { child, closed }
  }
  const endless = await start("trap '' TERM; sleep 1000 & echo started; while :; do sleep 1; done")
  const limit = new AbortController()
  const outcome = groupEnded(endless.child, limit.signal, 10)
  limit.abort()
  t.equal(await outcome, null)
  await endless.closed

  const careless = await start('sleep 1000 & echo started; exec sleep 0')
  t.equal(await groupEnded(careless.child, new AbortController().signal), 0)
  await careless.closed
})

// Whether each entry still names a mutant is asked by the run itself: code that moves must not break this file.
t.test('every entry of equivalent.ts gives its reason', async t => {
  for (const { reason, line } of EQUIVALENT) t.ok(reason.length > 10, line)
})
