// The tiles of a person are the applications that they may open, decided as the requests to them are.
import t from 'tap'
import { appsFor, hasApps } from '../../gateway/routes/apps.ts'
import { tableOf } from '../support/route-files.ts'

const OPTIONS = { cloudUnassignedMayPass: false, publicUrl: 'https://gw.example:8443' }
const person = (...profiles: string[]) => ({
  user: { profiles, accessStatus: 'assigned', provider: 'ldap' } as const,
  kind: 'login' as const
})

t.test('a table has applications if any of its routes is one', async t => {
  t.equal(hasApps(await tableOf(t, '/a', '/b')), false)
  t.equal(hasApps(await tableOf(t, '/a {app: {name: a}}', '/b')), true)
  t.equal(hasApps(await tableOf(t)), false)
})

t.test('an application is listed to those whom its route, and the route of its address, let in', async t => {
  const table = await tableOf(
    t,
    '/agents/* {roles: [Agente], app: {name: agents}}',
    '/start/* {app: {name: start, url: "/admin/start?x=1"}}',
    '/admin/* {roles: [Admin]}',
    '/closed/* {roles: [Admin], app: {name: closed, url: "/agents/x#top"}}',
    '/lost/* {app: {name: lost, url: /nowhere}}',
    '/far/* {app: {name: far, url: "https://far.example/admin/"}}'
  )
  const listed = (asker: Parameters<typeof appsFor>[1]) =>
    appsFor(table, asker, 'gw.example', OPTIONS).map(({ name, url }) => `${name} ${url}`)
  t.same(listed(person('Agente')), ['agents /agents', 'far https://far.example/admin/'])
  t.same(listed(person('Admin')), ['start /admin/start?x=1', 'far https://far.example/admin/'])
  t.same(listed(person('Admin', 'Agente')), [
    'agents /agents',
    'start /admin/start?x=1',
    'closed /agents/x#top',
    'far https://far.example/admin/'
  ])
  t.same(listed({}), [])
})
