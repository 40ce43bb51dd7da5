// The demo's own directory serves the gateway's login and the stock LDAP tools alike.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { Client } from 'ldapts'
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

/** Exit code and output of a tool of OpenLDAP's, simply bound as maria. */
const ldapTool = async (tool: string, ...args: string[]): Promise<{ code: number; output: string }> => {
  const bind = ['-x', '-H', demo.url, '-D', `uid=maria,ou=people,${demo.baseDn}`, '-w', 'senha-de-maria', '-LLL']
  const run = promisify(execFile)(tool, tool === 'ldapsearch' ? [...bind, ...args] : [...bind.slice(0, -1), ...args])
  return run.then(
    ({ stdout }) => ({ code: 0, output: stdout }),
    (error: { code: number; stderr: string }) => ({ code: error.code, output: error.stderr })
  )
}

t.test('each sample person logs in with their password only, and keeps the same subject', async t => {
  for (const { username, password, name, email } of demoPeople(login => `senha-de-${login}`)) {
    const person = await directory.authenticate(username, password)
    t.match(person, { username, name, email, subject: /^[0-9a-f-]{36}$/ })
    t.equal((await directory.authenticate(username.toUpperCase(), password)).subject, person.subject)
    await t.rejects(directory.authenticate(username, 'senha-errada'))
  }
  await t.rejects(directory.authenticate('nobody', 'senha-de-nobody'))
})

t.test('ldapwhoami and ldapsearch understand it', async t => {
  t.match(await ldapTool('ldapwhoami'), { code: 0, output: `dn:uid=maria,ou=people,${demo.baseDn}` })
  const found = await ldapTool(
    'ldapsearch',
    '-b',
    demo.baseDn,
    '(&(objectClass=person)(|(uid=ca*os)(mail=*ana@*)))',
    'uid'
  )
  t.equal(found.code, 0)
  t.same(found.output.match(/^uid: \w+$/gm), ['uid: carlos', 'uid: ana'])
  t.notMatch(found.output, /mail:|entryUUID:/)
  t.match(await ldapTool('ldapsearch', '-b', demo.baseDn, '-s', 'base', '(!(uid=x))', '*', '+'), { output: /dc: demo/ })
  t.match(await ldapTool('ldapsearch', '-b', '', '-s', 'base', '(objectClass=*)', 'namingContexts'), {
    output: demo.baseDn
  })
})

t.test('result codes are those of a real server', async t => {
  const code = async (...args: string[]) => (await ldapTool('ldapsearch', ...args)).code
  t.equal(await code('-b', 'dc=nowhere'), 32, 'noSuchObject')
  t.equal(await code('-b', demo.baseDn, '-z', '2'), 4, 'sizeLimitExceeded')
  t.equal(await code('-b', demo.baseDn, '-E', '!sync=ro'), 12, 'unavailableCriticalExtension')
  t.equal((await ldapTool('ldapdelete', `uid=ana,ou=people,${demo.baseDn}`)).code, 53, 'unwillingToPerform')
  const client = new Client({ url: demo.url })
  t.teardown(() => client.unbind())
  await t.rejects(client.bind(`uid=maria,ou=people,${demo.baseDn}`, ''), { code: 53 }, 'no password proves nothing')
  await t.rejects(client.bind(`uid=maria,ou=people,${demo.baseDn}`, 'x'), { code: 49 }, 'invalidCredentials')
  await t.rejects(client.bind('PLAIN', 'x'), { code: 7 }, 'authMethodNotSupported')
  await t.rejects(client.search(demo.baseDn), { code: 50 }, 'strangers may not search')
  await t.rejects(client.startTLS(), { code: 2 }, 'an unknown extension')
})
