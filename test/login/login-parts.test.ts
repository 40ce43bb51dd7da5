// What parts of a login do on their own: its record, its endpoints, what instances share, and the recheck.
import t from 'tap'
import { createLoginAudit } from '../../gateway/login/audit.ts'
import { startDirectory } from '../../gateway/login/start-directory.ts'
import { createTurns } from '../../gateway/values/turns.ts'
import { quiet } from '../support/quiet.ts'

const secret = 'a secret for tests that is long enough'

t.test(
  'sixty refusals have an entry each, one more follows every five seconds, and no typed name is in them',
  async t => {
    let now = 0
    const names: string[] = []
    const audit = createLoginAudit({
      audit: { append: async ({ actor }) => void names.push(actor.username) },
      names: { personOf: async () => undefined },
      secret,
      log: { ...quiet, debug() {} },
      clock: () => now
    })
    const refuse = async (username: string) => {
      audit.record({ ok: false, provider: 'ldap', reason: 'x', username, userId: undefined, requestId: 'r', ip: '' })
      // It writes the sums of those without an entry too, which name no one.
      await audit.flush()
      return names.filter((name, i) => name !== '' || i === 0).length
    }
    await refuse('')
    for (let n = 2; n <= 70; n++) t.equal(await refuse('typed'), Math.min(n, 60))
    now = 4999
    t.equal(await refuse('typed'), 60)
    now = 5000
    t.equal(await refuse('typed'), 61)
    t.equal(await refuse('typed'), 61)
    t.equal(names[0], '')
    t.match(names[1], /^unknown:[\w-]{16}$/)
  }
)

t.test('one caller works for a key, others wait their turn, and one too many is refused', async t => {
  const turns = createTurns(1, 1, () => new Error('one too many'))
  const first = Promise.withResolvers<void>()
  const done: string[] = []
  const work = (name: string, until: Promise<void>) => async () => {
    await until
    done.push(name)
  }
  const all = [turns('key', work('first', first.promise)), turns('key', work('second', Promise.resolve()))]
  await t.rejects(turns('key', work('third', Promise.resolve())), { message: 'one too many' })
  await turns('another key', work('other', Promise.resolve()))
  t.same(done, ['other'])
  first.resolve()
  await Promise.all(all)
  t.same(done, ['other', 'first', 'second'])
  await t.rejects(
    turns('key', async () => {
      throw new Error('failed')
    }),
    { message: 'failed' }
  )
  await turns('key', work('again', Promise.resolve()))
})

t.test('people linked by their login are mentioned, and looked up again by a service account only', async t => {
  for (const [byLogin, reasons] of [
    [0, []],
    [3, ['links-by-login']]
  ] as const) {
    const said: unknown[] = []
    const say = ({ reason }: { reason?: string }) => void (reason?.startsWith('links-') && said.push(reason))
    const log = { info: say, warn: say, error() {}, debug() {} }
    const ldap = {
      active: true,
      url: 'ldap://127.0.0.1:9',
      urls: ['ldap://127.0.0.1:9'],
      searchBase: 'dc=a',
      recheckMs: 1000
    }
    let asked = 0
    const database = {
      async read() {
        asked++
        return { byLogin, bySubject: 0 }
      }
    }
    const parts = await startDirectory(
      { ldap: { ...ldap, timeoutMs: 100, userDnTemplate: 'uid={{username}},dc=a' } } as never,
      { database: database as never, users: {} as never },
      { feed: { catchUp: async () => undefined } },
      log as never
    )
    await parts.close()
    t.same(said, reasons)
    // Whatever rechecks people gives up its lease when it is closed.
    t.equal(asked, 1)
  }
})
