// A database is taken for one without timelines only if it says so: no other error may hide a later fail-over.
import t from 'tap'
import { query } from '../../gateway/store/query.ts'
import { onTimeline, readTimeline } from '../../gateway/store/token-state.ts'
import { startPostgres } from '../support/postgres.ts'
import { openStore } from '../support/store.ts'

const postgres = await startPostgres(t)

t.test('an error that has nothing to do with timelines leaves them as they are', async t => {
  const { database } = await openStore(t, postgres)
  const before = await readTimeline(database)
  t.match(before, /^\d+\/[0-9A-F]{8}$/)
  for (const statement of ['SELECT 1 / 0', 'SELECT * FROM none', "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$"])
    await t.rejects(onTimeline(database, () => database.read(manager => query(manager, statement))))
  t.equal(await readTimeline(database), before)
})

t.test('a database without the functions has no timeline', async t => {
  const { database } = await openStore(t, postgres)
  const name = await onTimeline(database, async timeline => {
    if (timeline !== "''") await database.read(manager => query(manager, 'SELECT pg_no_such_function()'))
    return timeline
  })
  t.equal(name, "''")
  t.equal(await readTimeline(database), '')
})
