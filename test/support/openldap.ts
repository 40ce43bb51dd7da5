// Starts a real OpenLDAP server with sample people, TLS and a password policy on free ports for one test file.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Attribute, Change, Client } from 'ldapts'
import type { Test } from 'tap'
import type { LdapSettings } from '../../gateway/settings/settings.ts'
import { type CertificateFiles, createCertificateAuthority } from './certificates.ts'
import { findSchema, slapdConfig } from './openldap-config.ts'
import {
  ADMIN,
  attributesOf,
  BASE_DN,
  type DirectoryEntrySpec,
  dnOf,
  READER,
  SAMPLE_PASSWORD,
  sampleLdif
} from './openldap-people.ts'
import { accepts, freePorts } from './ports.ts'
import { createServerProcess, makeFolder } from './server-process.ts'

export { type DirectoryEntrySpec, SAMPLE_PASSWORD, SAMPLE_PEOPLE } from './openldap-people.ts'

export interface OpenLdapOptions {
  /** Wrong passwords after which the server locks an account; 0: never. */
  lockoutThreshold?: number
  certificate?: 'valid' | 'expired' | 'wrong-host' | 'self-signed'
  /** Who may read entries: anybody, as in a fresh OpenLDAP; people once bound; or bound people, and their own only. */
  readable?: 'everybody' | 'all' | 'self'
  /** Shows no entry's entryUUID, except to the administrator. */
  withoutEntryUuid?: boolean
  /** Answers plain LDAP only; STARTTLS is refused. */
  withoutTls?: boolean
  /** Further entries, as LDIF. */
  ldif?: string
}

export type OpenLdap = Awaited<ReturnType<typeof startOpenLdap>>

const UID_OR_MAIL = '(|(uid={{username}})(mail={{username}}))'

/** Needs `slapd`, `slapadd` and `openssl`. Runs until `t`'s teardown. */
export const startOpenLdap = async (t: Pick<Test, 'teardown'>, options: OpenLdapOptions = {}) => {
  const folder = makeFolder(t, 'openldap')
  const authority = createCertificateAuthority(folder)
  const configFile = join(folder, 'slapd.conf')
  mkdirSync(join(folder, 'data'))
  writeFileSync(
    configFile,
    slapdConfig({
      folder,
      baseDn: BASE_DN,
      admin: ADMIN,
      schema: findSchema(),
      readable: options.readable ?? 'everybody',
      withoutEntryUuid: options.withoutEntryUuid ?? false,
      tls: options.withoutTls === true ? undefined : { ca: authority.caFile, ...certificateFor(authority, options) }
    })
  )
  const ldif = [sampleLdif(options.lockoutThreshold ?? 0), options.ldif ?? ''].join('\n\n')
  execFileSync('slapadd', ['-q', '-f', configFile], { input: ldif, stdio: 'pipe' })
  const [port = 0, tlsPort = 0] = await freePorts(2)
  const url = `ldap://127.0.0.1:${port}`
  const ldapsUrl = `ldaps://127.0.0.1:${tlsPort}`
  const listeners = options.withoutTls === true ? url : `${url} ${ldapsUrl}`
  const args = ['-d', '0', '-f', configFile, '-h', listeners]
  const server = createServerProcess({ command: 'slapd', args, isUp: () => accepts(port) })
  t.teardown(() => server.end('SIGKILL'))
  await server.start()
  const env = {
    LDAP_ENABLED: 'true',
    LDAP_URL: url,
    LDAP_DOMAIN: 'corp.example',
    LDAP_USER_DN_TEMPLATE: `uid={{username}},ou=people,${BASE_DN}`,
    LDAP_SEARCH_BASE: BASE_DN,
    LDAP_SEARCH_FILTER: '(uid={{username}})'
  }

  return {
    url,
    ldapsUrl,
    port,
    caFile: authority.caFile,
    /** PEM text of the authority behind its certificate. */
    ca: authority.ca,
    baseDn: BASE_DN,
    admin: ADMIN,
    /** Of every sample person. */
    password: SAMPLE_PASSWORD,
    /** Settings for a gateway that binds as `uid=…,ou=people,…` and searches the whole base. */
    settings: (overrides?: Partial<LdapSettings>) => settingsFor(url, overrides),
    /** The same with the administrator as service account. */
    serviceSettings: (overrides?: Partial<LdapSettings>) =>
      settingsFor(url, {
        userDnTemplate: undefined,
        bindDn: ADMIN.dn,
        bindPassword: ADMIN.password,
        searchFilter: UID_OR_MAIL,
        ...overrides
      }),
    /** An account for that without further rights. */
    reader: { bindDn: READER.dn, bindPassword: READER.password },
    /** The same as an operator would set it, people of `corp.example` being `uid=…` below it. */
    env,
    /** The same with the administrator as service account. */
    serviceEnv: {
      ...env,
      LDAP_USER_DN_TEMPLATE: '',
      LDAP_BIND_DN: ADMIN.dn,
      LDAP_BIND_PASSWORD: ADMIN.password,
      LDAP_SEARCH_FILTER: UID_OR_MAIL
    },
    ...administration(url),
    stop: () => server.end('SIGTERM'),
    start: server.start,
    /** Connections are accepted by the kernel, and nothing answers. */
    freeze() {
      server.signal('SIGSTOP')
      // A stop takes its time; what follows must find it done.
      while (stateOf(server.pid()) === 'running');
    },
    thaw: () => server.signal('SIGCONT')
  }
}

const certificateFor = (
  authority: ReturnType<typeof createCertificateAuthority>,
  { certificate = 'valid' }: OpenLdapOptions
): CertificateFiles => {
  if (certificate === 'self-signed') return authority.selfSigned('self-signed')
  if (certificate === 'expired') return authority.issue('expired', { expired: true })
  if (certificate === 'wrong-host')
    return authority.issue('wrong-host', { names: ['DNS:other.example', 'IP:192.0.2.1'] })
  return authority.issue('directory')
}

/** For a directory at this address. */
export const settingsFor = (url: string, overrides: Partial<LdapSettings> = {}): LdapSettings => ({
  active: true,
  url,
  domain: undefined,
  userDnTemplate: `uid={{username}},ou=people,${BASE_DN}`,
  bindDn: undefined,
  bindPassword: undefined,
  groupBase: undefined,
  groupFilter: undefined,
  recheckMs: 0,
  searchBase: BASE_DN,
  searchFilter: '(&(objectClass=inetOrgPerson)(uid={{username}}))',
  timeoutMs: 5000,
  ca: undefined,
  startTls: false,
  insecure: false,
  lockoutThreshold: 5,
  lockoutWindowMs: 1_800_000,
  ...overrides
})

const administration = (url: string) => {
  const asAdmin = async <T>(work: (client: Client) => Promise<T>): Promise<T> => {
    const client = new Client({ url, timeout: 60_000, connectTimeout: 60_000 })
    try {
      await client.bind(ADMIN.dn, ADMIN.password)
      return await work(client)
    } finally {
      await client.unbind()
    }
  }
  const replace = (dn: string, type: string, values: string[]) =>
    asAdmin(client =>
      client.modify(dn, new Change({ operation: 'replace', modification: new Attribute({ type, values }) }))
    )
  const setLocked = (uid: string, values: string[]) => replace(dnOf({ uid }), 'pwdAccountLockedTime', values)
  const read = async (base: string, attribute: string): Promise<string[]> => {
    const { searchEntries } = await asAdmin(client => client.search(base, { scope: 'base', attributes: [attribute] }))
    return [searchEntries[0]?.[attribute] ?? []].flat().map(String)
  }
  return {
    addPerson: async (person: DirectoryEntrySpec) => {
      await asAdmin(client => client.add(dnOf(person), attributesOf(person)))
      return dnOf(person)
    },
    /** Any entry, by its DN. */
    add: (dn: string, attributes: Record<string, string | string[]>) => asAdmin(client => client.add(dn, attributes)),
    replace,
    remove: (dn: string) => asAdmin(client => client.del(dn)),
    /** As an administrator would (pwdAccountLockedTime). */
    lock: (uid: string) => setLocked(uid, ['000001010000Z']),
    unlock: (uid: string) => setLocked(uid, []),
    /** Failures that the server's own password policy counts now (pwdFailureTime). */
    failureCount: async (uid: string) => (await read(dnOf({ uid }), 'pwdFailureTime')).length,
    /** When the server's own password policy locked the account (pwdAccountLockedTime); `[]` if it did not. */
    lockedSince: (uid: string) => read(dnOf({ uid }), 'pwdAccountLockedTime'),
    /** Connections that the server holds now, this question's own not counted. */
    connectionCount: async () => Number((await read('cn=Current,cn=Connections,cn=Monitor', 'monitorCounter'))[0]) - 1
  }
}

/** proc_pid_stat(5); `unknown` where there is none. */
const stateOf = (pid: number | undefined): 'running' | 'stopped' | 'unknown' => {
  try {
    return / T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')) ? 'stopped' : 'running'
  } catch {
    return 'unknown'
  }
}
