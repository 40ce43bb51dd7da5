// Describes the people and the password policy that a test's OpenLDAP server starts with, as LDIF.
import { createHash, randomBytes } from 'node:crypto'
import { escapeDnValue } from '../../gateway/directory/names.ts'

export interface DirectoryEntrySpec {
  uid: string
  password: string
  cn?: string
  displayName?: string
  mail?: string
  /** Organizational unit below the base; `people` unless said. */
  ou?: string
  /** As Active Directory has them: of an entry with an objectGUID. */
  account?: { sAMAccountName: string; userPrincipalName: string }
}

export const BASE_DN = 'dc=corp,dc=example'
export const ADMIN = { dn: `cn=admin,${BASE_DN}`, password: 'directory-admin-password' }
export const READER = { dn: `cn=reader,${BASE_DN}`, password: 'directory-reader-password' }
export const SAMPLE_PASSWORD = 'Senha-de-teste-9'

/** People every server starts with; all have the password SAMPLE_PASSWORD. */
export const SAMPLE_PEOPLE: readonly Omit<DirectoryEntrySpec, 'password'>[] = [
  { uid: 'maria', cn: 'Maria Silva', displayName: 'Maria da Silva', mail: 'maria@corp.example' },
  { uid: 'carlos', cn: 'Carlos Lima', mail: 'carlos@corp.example' },
  { uid: 'ana', cn: 'Ana Souza', displayName: 'Ana Souza', mail: 'ana@corp.example' },
  { uid: 'joão', cn: 'João Antônio Gonçalves', displayName: 'João Gonçalves 李', mail: 'joao@corp.example' },
  { uid: 'silva, rui', cn: 'Rui Silva' },
  { uid: 'a+b', cn: 'Plus' },
  { uid: 'o"neil', cn: 'Quote' },
  { uid: '#hash <x>; y=z', cn: 'Hash' },
  { uid: 'star*(1)', cn: 'Star' },
  { uid: 'twin', cn: 'Twin of people' },
  { uid: 'twin', cn: 'Twin of contractors', ou: 'contractors' },
  { uid: 'locked', cn: 'Locked Person' }
]

export const dnOf = ({ uid, ou = 'people' }: { uid: string; ou?: string }): string =>
  `uid=${escapeDnValue(uid)},ou=${ou},${BASE_DN}`

/** {SSHA}, OpenLDAP's own default. */
const hashPassword = (password: string): string => {
  const salt = randomBytes(8)
  return `{SSHA}${Buffer.concat([createHash('sha1').update(password).update(salt).digest(), salt]).toString('base64')}`
}

export const attributesOf = (person: DirectoryEntrySpec): Record<string, string | string[]> => ({
  objectClass: ['inetOrgPerson', 'account-state'],
  uid: person.uid,
  cn: person.cn ?? person.uid,
  sn: person.cn ?? person.uid,
  userPassword: hashPassword(person.password),
  ...(person.displayName === undefined ? {} : { displayName: person.displayName }),
  ...(person.mail === undefined ? {} : { mail: person.mail }),
  ...(person.account === undefined ? {} : { ...person.account, objectGUID: randomBytes(8).toString('hex') })
})

export const ldifEntry = (dn: string, attributes: Record<string, string | string[]>): string =>
  Object.entries({ dn, ...attributes })
    .flatMap(([name, values]) => [values].flat().map(value => `${name}:: ${Buffer.from(value).toString('base64')}`))
    .join('\n')

export const sampleLdif = (lockoutThreshold: number): string => {
  const policy = {
    objectClass: ['applicationProcess', 'pwdPolicy'],
    cn: 'default',
    pwdAttribute: 'userPassword',
    pwdLockout: 'TRUE',
    pwdMaxFailure: String(lockoutThreshold),
    pwdLockoutDuration: '0'
  }
  return [
    ldifEntry(BASE_DN, { objectClass: ['dcObject', 'organization'], o: 'Corp', dc: 'corp' }),
    ...['people', 'contractors', 'policies'].map(ou =>
      ldifEntry(`ou=${ou},${BASE_DN}`, { objectClass: 'organizationalUnit', ou })
    ),
    ldifEntry(`cn=default,ou=policies,${BASE_DN}`, policy),
    ldifEntry(READER.dn, {
      objectClass: ['applicationProcess', 'simpleSecurityObject'],
      cn: 'reader',
      userPassword: hashPassword(READER.password)
    }),
    ...SAMPLE_PEOPLE.map(person => {
      const locked = person.uid === 'locked' ? { pwdAccountLockedTime: '000001010000Z' } : {}
      return ldifEntry(dnOf(person), { ...attributesOf({ ...person, password: SAMPLE_PASSWORD }), ...locked })
    })
  ].join('\n\n')
}
