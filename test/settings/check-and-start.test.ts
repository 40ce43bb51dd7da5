// What `portaria check` says of the settings is what a start says of them.
import t from 'tap'
import { readSettings, SettingsError } from '../../gateway/settings/read-settings.ts'
import { portariaHere } from '../support/cli-here.ts'
import { routeFolder } from '../support/route-files.ts'

const ENV = { JWT_SECRET: '3f9d2c61b8a47e05d1c7f6a2938b4e5c70a1d2f3' }
const LDAP = { LDAP_ENABLED: 'true', LDAP_URL: 'ldaps://dc1.corp.example', LDAP_DOMAIN: 'corp.example' }
const SEARCH = { ...LDAP, LDAP_SEARCH_BASE: 'dc=corp,dc=example', LDAP_SEARCH_FILTER: '(uid={{username}})' }

const folder = await routeFolder(t, { 'a.yaml': 'routes: []\n' })

const atStart = (environment: Record<string, string>) => {
  try {
    return { mistakes: [], warnings: readSettings(environment, []).warnings }
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return { mistakes: error.mistakes, warnings: error.warnings }
  }
}

/** The variables with mistakes, at `check` and at the start alike. */
const judged = async (more: Record<string, string>) => {
  const env = { ...ENV, ...more }
  const checked = await portariaHere(['check', folder, '--json'], { env })
  const { mistakes, warnings } = (checked.json() as { settings: Record<string, unknown> }).settings
  const started = atStart(env)
  t.same({ mistakes, warnings }, started, 'check and start agree', { env })
  t.equal(checked.code, started.mistakes.length > 0 ? 1 : 0)
  return { mistakes: started.mistakes.map(({ variable }) => variable), warnings: started.warnings }
}

// RV-91
t.test('a filter of the directory is parsed by check as at a start', async t => {
  const filters: Record<string, boolean> = {
    '(uid={{username}})': true,
    '(& (a=b) (uid={{username}}))': true,
    '(|(uid;lang-pt={{username}})(mail={{username}}))': true,
    '(2.5.4.3={{username}})': true,
    '(uid=\\2a{{username}})': true,
    '(uid=\\q{{username}})': false,
    '(uid={{username}}': false,
    '(uid={{username}}))': false,
    '(&(uid={{username}})mail=x)': false,
    '({{username}}=x)': false,
    '(uid={{username}})(a=b)': false
  }
  for (const [filter, isRight] of Object.entries(filters)) {
    const search = await judged({ ...SEARCH, LDAP_SEARCH_FILTER: filter })
    t.same(search.mistakes, isRight ? [] : ['LDAP_SEARCH_FILTER'], filter)
    const groups = { LDAP_GROUP_BASE: 'ou=groups,dc=x', LDAP_GROUP_FILTER: filter.replaceAll('username', 'dn') }
    t.same((await judged({ ...SEARCH, ...groups })).mistakes, isRight ? [] : ['LDAP_GROUP_FILTER'], filter)
  }
})

// RV-92
t.test('the base of a search is a distinguished name', async t => {
  for (const base of ['dc=corp,dc=example', 'ou=Caf\\c3\\a9 + l=x , O=corp', 'OID.2.5.4.10=corp'])
    t.same((await judged({ ...SEARCH, LDAP_SEARCH_BASE: base, LDAP_GROUP_BASE: base })).mistakes, [], base)
  for (const base of ['not a dn', 'ou=groups,', ',dc=x', 'dc', 'dc=corp;dc=example', 'ou=a\\q', 'corp.example']) {
    t.same((await judged({ ...SEARCH, LDAP_SEARCH_BASE: base })).mistakes, ['LDAP_SEARCH_BASE'], base)
    t.same((await judged({ ...SEARCH, LDAP_GROUP_BASE: base })).mistakes, ['LDAP_GROUP_BASE'], base)
  }
})
