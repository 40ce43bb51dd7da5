// Runs a Samba Active Directory domain controller in a folder of its own, on a loopback address of its own.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Attribute, Change, Client } from 'ldapts'
import { type CertificateFiles, createCertificateAuthority } from '../../test/support/certificates.ts'
import { createServerProcess, makeFolder } from '../../test/support/server-process.ts'
import { succeeds } from '../../test/support/until.ts'
import type { Teardown } from '../teardown.ts'
import { ensurePrograms } from './installed.ts'
import { versionOf } from './system.ts'
import { say } from './table.ts'

/** Samba's LDAP ports are fixed; the address is not. */
export const ADDRESS = '127.0.0.77'
export const BASE = 'DC=corp,DC=example'
export const USERS = `CN=Users,${BASE}`
export const ADMIN = { dn: `CN=Administrator,${USERS}`, password: 'Admin-Senha-9' }
export const SERVICE = { dn: `CN=portaria,${USERS}`, password: 'Servico-Senha-9' }
export const PASSWORD = 'Pessoa-Senha-9'
export const LOCKOUT_THRESHOLD = 5

const PACKAGES = 'samba samba-dsdb-modules samba-vfs-modules samba-ad-provision'

export const startSamba = async (t: Teardown) => {
  const folder = makeFolder(t, 'samba')
  ensurePrograms({ samba: PACKAGES, 'samba-tool': PACKAGES })
  say('provisioning a domain (half a minute)')
  execFileSync(
    'samba-tool',
    [
      ...['domain', 'provision', `--targetdir=${folder}`, '--realm=CORP.EXAMPLE', '--domain=CORP', '--server-role=dc'],
      ...['--dns-backend=NONE', `--adminpass=${ADMIN.password}`, '--host-name=dc1', `--host-ip=${ADDRESS}`]
    ],
    { stdio: 'pipe' }
  )
  const authority = createCertificateAuthority(folder)
  const certificate = authority.issue('samba', { names: [`IP:${ADDRESS}`] })
  const config = join(folder, 'smb.conf')
  for (const name of ['run', 'cache']) mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(config, configOf(folder, authority.caFile, certificate))
  const tool = (...args: string[]) => execFileSync('samba-tool', [...args, '-s', config], { stdio: 'pipe' })
  tool('domain', 'passwordsettings', 'set', `--account-lockout-threshold=${LOCKOUT_THRESHOLD}`, '--min-pwd-age=0')
  const args = ['-F', '-s', config]
  const server = createServerProcess({ command: 'samba', args, detached: true, isUp: answers })
  t.teardown(() => server.end('SIGTERM'))
  await server.start()
  const samba = administration(authority)
  await samba.addPerson('portaria', { password: SERVICE.password })
  return {
    ...samba,
    async restart() {
      await server.end('SIGTERM')
      await server.start()
    },
    freeze: () => server.signal('SIGSTOP'),
    thaw: () => server.signal('SIGCONT')
  }
}

export type SambaServer = Awaited<ReturnType<typeof startSamba>>

const configOf = (folder: string, ca: string, { keyFile, certFile }: CertificateFiles): string => `[global]
cache directory = ${folder}/cache
lock directory = ${folder}
state directory = ${folder}/state
private dir = ${folder}/private
pid directory = ${folder}/run
ncalrpc dir = ${folder}/ncalrpc
binddns dir = ${folder}/bind-dns
log file = ${folder}/log
bind interfaces only = Yes
interfaces = ${ADDRESS}/8
netbios name = DC1
realm = CORP.EXAMPLE
workgroup = CORP
server role = active directory domain controller
server services = ldap
ldap server require strong auth = no
tls enabled = yes
tls keyfile = ${keyFile}
tls certfile = ${certFile}
tls cafile = ${ca}
[sysvol]
path = ${folder}/state/sysvol
`

const answers = (): Promise<boolean> => {
  const socket = connect(389, ADDRESS)
  return succeeds(once(socket, 'connect')).finally(() => socket.destroy())
}

const administration = ({ ca, caFile }: { ca: string; caFile: string }) => {
  const client = async <T>(work: (client: Client) => Promise<T>, who = ADMIN): Promise<T> => {
    const connection = new Client({ url: `ldaps://${ADDRESS}`, tlsOptions: { ca: [ca] }, timeout: 10_000 })
    try {
      await connection.bind(who.dn, who.password)
      return await work(connection)
    } finally {
      await connection.unbind()
    }
  }
  const set = (dn: string, type: string, values: string[]) =>
    client(connection =>
      connection.modify(dn, new Change({ operation: 'replace', modification: new Attribute({ type, values }) }))
    )
  const read = async (name: string, attribute: string): Promise<string> => {
    const { searchEntries } = await client(connection =>
      connection.search(`CN=${name},${USERS}`, { scope: 'base', attributes: [attribute] })
    )
    return String([searchEntries[0]?.[attribute] ?? []].flat()[0] ?? '')
  }
  return {
    ca,
    caFile,
    client,
    set,
    addPerson: async (name: string, { principal = `${name}@corp.example`, password = PASSWORD } = {}) => {
      const dn = `CN=${name},${USERS}`
      const unicodePwd = Buffer.from(`"${password}"`, 'utf16le')
      await client(connection =>
        connection.add(dn, [
          new Attribute({ type: 'objectClass', values: ['user'] }),
          new Attribute({ type: 'sAMAccountName', values: [name] }),
          new Attribute({ type: 'userPrincipalName', values: [principal] }),
          new Attribute({ type: 'displayName', values: [`${name} da Silva`] }),
          new Attribute({ type: 'unicodePwd', values: [unicodePwd] }),
          new Attribute({ type: 'userAccountControl', values: ['512'] })
        ])
      )
      return dn
    },
    badPwdCount: async (name: string) => Number(await read(name, 'badPwdCount')),
    isLockedOut: async (name: string) => (Number(await read(name, 'msDS-User-Account-Control-Computed')) & 0x10) !== 0
  }
}

export const sambaVersion = (): string => versionOf('samba', '--version')
