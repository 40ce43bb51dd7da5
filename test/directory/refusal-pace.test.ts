// A name that does not exist is refused as late as a wrong password, however slowly the directory hashes.
// RV-69, LD-13
import t from 'tap'
import { createDirectory, createRefusalPace } from '../../gateway/directory/directory.ts'
import { entry, REQUEST, result, startLdapServer } from '../support/ldap-server.ts'
import { settingsFor } from '../support/openldap.ts'

const HASHING_MS = 400
const DN = 'uid=maria,ou=people,dc=corp'

t.test('with a service account, an unknown name takes as long as the last wrong password', async t => {
  const slow = await startLdapServer(t, ({ tag, id, body, send }) => {
    if (tag === REQUEST.search && body.includes('maria')) send(entry(id, DN, { uid: ['maria'] }))
    if (tag === REQUEST.search) send(result(id, 0x65))
    if (tag !== REQUEST.bind) return
    if (body.includes('cn=service')) send(result(id, 0x61))
    else setTimeout(() => send(result(id, 0x61, 49)), body.includes('uid=maria') ? HASHING_MS : 0)
  })
  const directory = createDirectory(settingsFor(slow.url, { bindDn: 'cn=service', bindPassword: 'x' }))
  const refusalMs = async (name: string): Promise<number> => {
    const startedAt = performance.now()
    await t.rejects(directory.authenticate(name, 'errada'))
    return performance.now() - startedAt
  }
  t.ok((await refusalMs('maria')) >= HASHING_MS * 0.98)
  for (const name of ['ninguem', 'outro']) t.ok((await refusalMs(name)) >= HASHING_MS * 0.98, name)
})

t.test('only time lowers the estimate, and one stall counts for half', async t => {
  let now = 0
  const pace = createRefusalPace(() => now)
  t.equal(pace.refusalMs(), 0)
  pace.note(400)
  t.equal(pace.refusalMs(), 400)
  for (let n = 0; n < 100; n++) pace.note(1)
  t.equal(pace.refusalMs(), 400)
  pace.note(1200)
  t.equal(pace.refusalMs(), 800)
  now += 600_000
  t.equal(pace.refusalMs(), 400)
})
