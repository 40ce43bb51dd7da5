// Stores what the gateway knows about the people of a world, in a real Postgres whose times can be put back.
import { createLoginNames } from '../../../gateway/store/login-names.ts'
import type { ConfirmedPerson } from '../../../gateway/store/users.ts'
import { startPostgres } from '../../../test/support/postgres.ts'
import { openStore } from '../../../test/support/store.ts'

export type PeopleStore = Awaited<ReturnType<typeof openPeopleStore>>

export const openPeopleStore = async (t: Parameters<typeof startPostgres>[0]) => {
  const { database, users, memory } = await openStore(t, await startPostgres(t))
  return {
    database,
    names: createLoginNames(database),
    remember: memory.rememberAddress,
    /** The id of the person. */
    sync: async (person: ConfirmedPerson): Promise<number> => (await users.syncPerson(person)).user.id,
    /** The subjects that lead to a person. */
    subjectsOf: (userId: number): Promise<string[]> =>
      database.read(async manager => {
        const rows = await manager.query('SELECT subject FROM provider_links WHERE user_id = $1', [userId])
        return (rows as { subject: string }[]).map(({ subject }) => subject)
      }),
    /** Everything happened so much earlier. */
    age: (ms: number): Promise<void> =>
      database.write(async manager => {
        const earlier = `- ${Math.round(ms)}::float8 * interval '1 millisecond'`
        await manager.query(`
          WITH logins AS (UPDATE users SET last_login_at = last_login_at ${earlier})
          UPDATE login_attempts SET at = at ${earlier}, expires_at = expires_at ${earlier}`)
      }),
    /** Another world begins. */
    clear: (): Promise<void> =>
      database.write(async manager => {
        await manager.query('DELETE FROM login_attempts')
        await manager.query('DELETE FROM login_names')
        await manager.query('DELETE FROM login_addresses')
        await manager.query('DELETE FROM users')
      })
  }
}
