// The demo's own directory lets its people in, each by their password.
import t from 'tap'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { demoPeople, startDemoDirectory } from './directory.ts'

const demo = await startDemoDirectory({ people: demoPeople(username => `senha-de-${username}`) })
t.teardown(demo.close)

const directory = createDirectory(
  {
    active: true,
    url: demo.url,
    domain: undefined,
    userDnTemplate: demo.environment.LDAP_USER_DN_TEMPLATE,
    bindDn: undefined,
    bindPassword: undefined,
    groupBase: undefined,
    groupFilter: undefined,
    recheckMs: 0,
    searchBase: demo.environment.LDAP_SEARCH_BASE,
    searchFilter: demo.environment.LDAP_SEARCH_FILTER,
    timeoutMs: 5000,
    ca: undefined,
    startTls: false,
    insecure: false,
    lockoutThreshold: 5,
    lockoutWindowMs: 1_800_000
  },
  { failureFloorMs: 0 }
)

t.test('each sample person logs in with their password only, and keeps the same subject', async t => {
  for (const { username, password, name, email } of demoPeople(login => `senha-de-${login}`)) {
    const person = await directory.authenticate(username, password)
    t.match(person, { username, name, email, subject: /^[0-9a-f-]{36}$/ })
    t.equal((await directory.authenticate(username.toUpperCase(), password)).subject, person.subject)
    await t.rejects(directory.authenticate(username, 'senha-errada'))
  }
  await t.rejects(directory.authenticate('nobody', 'senha-de-nobody'))
})
