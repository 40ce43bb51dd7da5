// Logs many people in while their access changes.
import t from 'tap'
import { startPostgres } from '../support/postgres.ts'
import { actor, openStore, person } from '../support/store.ts'

t.test(
  'two hundred first logins and fifty changes of access at once leave a consistent database and a whole audit chain',
  async t => {
    // DF-05, AD-08
    const postgres = await startPostgres(t)
    const first = await openStore(t, postgres)
    const second = await openStore(t, postgres, first.url)
    await first.users.createArea(actor, 'Norte')
    // Each of a hundred people logs in twice at once, once on each instance.
    const names = Array.from({ length: 100 }, (_, i) => `person-${i}`)
    const logins = await Promise.all(
      names.flatMap(name => [first, second].map(store => store.users.syncPerson(person(name))))
    )
    const ids = new Map(logins.map(({ user }) => [user.username, user.id]))
    t.equal(new Set(logins.map(({ user }) => user.id)).size, 100, 'each person once')
    t.equal(logins.filter(({ firstLogin }) => firstLogin).length, 100)

    const changed = names.slice(0, 25)
    const give = (profiles: string[]) => ({ profiles, areas: ['Norte'], areaPrincipal: 'Norte' })
    await Promise.all(
      changed.flatMap(name => [
        first.users.setAccess(actor, ids.get(name) ?? 0, give(['Agente'])),
        second.users.setAccess(actor, ids.get(name) ?? 0, give(['Agente', 'Supervisor']))
      ])
    )
    for (const name of changed) {
      const found = await first.users.loadPerson(ids.get(name) ?? 0)
      t.equal(found?.user.accessStatus, 'assigned')
      t.equal(found?.version, 2, 'every change raised the version')
    }
    t.match(await second.audit.verify(), { ok: true })
    t.equal((await first.audit.list({ action: 'access.set', pageSize: 200 })).total, 50)
  }
)
