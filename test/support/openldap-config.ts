// Writes the configuration file of a test's OpenLDAP server, for the layouts of the usual distributions.
import { existsSync } from 'node:fs'
import { join } from 'node:path'

export interface SlapdConfig {
  readonly folder: string
  readonly baseDn: string
  readonly admin: { readonly dn: string; readonly password: string }
  readonly schema: string
  readonly readable: 'everybody' | 'all' | 'self'
  readonly withoutEntryUuid: boolean
  readonly tls: { readonly ca: string; readonly keyFile: string; readonly certFile: string } | undefined
}

/** What of Active Directory's accounts this server can show (MS-ADSC). */
const ACCOUNT_SCHEMA = [
  "attributetype ( 1.2.840.113556.1.4.8 NAME 'userAccountControl' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )",
  "attributetype ( 1.2.840.113556.1.4.159 NAME 'accountExpires' SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE )",
  "attributetype ( 1.2.840.113556.1.4.221 NAME 'sAMAccountName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )",
  "attributetype ( 1.2.840.113556.1.4.656 NAME 'userPrincipalName' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )",
  "attributetype ( 1.2.840.113556.1.4.2 NAME 'objectGUID' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )",
  "objectclass ( 1.2.840.113556.1.5.9 NAME 'account-state' AUXILIARY MAY ( userAccountControl $ accountExpires $ sAMAccountName $ userPrincipalName $ objectGUID ) )"
]
/** slapd.access(5) */
const READERS = { everybody: '*', all: 'users', self: 'self' } as const
const SCHEMA_FOLDERS = ['/etc/ldap/schema', '/etc/openldap/schema', '/opt/homebrew/etc/openldap/schema']
const MODULE_FOLDERS = ['/usr/lib/ldap', '/usr/lib64/openldap', '/usr/lib/openldap', '/usr/libexec/openldap']

/** Where the standard schema lies; OPENLDAP_SCHEMA says otherwise. */
export const findSchema = (): string => {
  const folder = process.env.OPENLDAP_SCHEMA ?? SCHEMA_FOLDERS.find(existsSync)
  if (folder === undefined)
    throw new Error('OpenLDAP (slapd) is not installed, or OPENLDAP_SCHEMA must name its schema')
  return folder
}

/** slapd.conf(5), with the password policy overlay (slapo-ppolicy(5)) and the monitor (slapd-monitor(5)). */
export const slapdConfig = (options: SlapdConfig): string => {
  const { folder, baseDn, admin, schema, readable, withoutEntryUuid, tls } = options
  const modules = MODULE_FOLDERS.find(
    path => existsSync(join(path, 'ppolicy.so')) || existsSync(join(path, 'ppolicy.la'))
  )
  const lines = [
    ...['core', 'cosine', 'inetorgperson'].map(name => `include ${join(schema, `${name}.schema`)}`),
    ...ACCOUNT_SCHEMA,
    `pidfile ${join(folder, 'slapd.pid')}`,
    ...(modules === undefined
      ? []
      : [`modulepath ${modules}`, 'moduleload back_mdb', 'moduleload ppolicy', 'moduleload memberof']),
    'threads 4',
    ...(tls === undefined
      ? []
      : [
          `TLSCACertificateFile ${tls.ca}`,
          `TLSCertificateFile ${tls.certFile}`,
          `TLSCertificateKeyFile ${tls.keyFile}`,
          'TLSVerifyClient never'
        ]),
    'database monitor',
    `access to * by dn.exact="${admin.dn}" read by * none`,
    'database mdb',
    `suffix "${baseDn}"`,
    `rootdn "${admin.dn}"`,
    `rootpw ${admin.password}`,
    `directory ${join(folder, 'data')}`,
    'maxsize 268435456',
    'dbnosync',
    'index objectClass,uid,mail,member,entryUUID eq',
    'access to attrs=userPassword by self write by anonymous auth by * none',
    ...(withoutEntryUuid ? ['access to attrs=entryUUID by * none'] : []),
    ...(readable === 'everybody' ? [] : [`access to dn.base="${baseDn}" by users search by * none`]),
    `access to * by ${READERS[readable]} read${readable === 'everybody' ? '' : ' by * none'}`,
    'overlay memberof',
    'overlay ppolicy',
    `ppolicy_default "cn=default,ou=policies,${baseDn}"`,
    'ppolicy_use_lockout'
  ]
  return `${lines.join('\n')}\n`
}
