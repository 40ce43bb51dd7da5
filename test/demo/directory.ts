// Answers binds and searches about the demo's people, as a small LDAP directory on loopback.
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { type BerElement, readElements } from '../../gateway/directory/messages.ts'
import { escapeDnValue } from '../../gateway/directory/names.ts'
import { isSameDn } from '../../gateway/values/ldap-text.ts'
import { entry, type LdapRequest, partOf, REQUEST, result, startLdapServer } from '../support/ldap-server.ts'

export interface DemoPerson {
  readonly username: string
  readonly password: string
  readonly name: string
  readonly email: string
  /** DNs of groups. */
  readonly groups?: readonly string[]
}

interface Entry {
  readonly dn: string
  /** undefined: binding as this entry is impossible. */
  readonly password: string | undefined
  /** Values by attribute name. */
  readonly attributes: Readonly<Record<string, readonly string[]>>
}

const BASE_DN = 'dc=demo,dc=example'
/** The route file says what its members may do. */
export const DEMO_GROUP = `cn=suporte,ou=groups,${BASE_DN}`

/** Who they are meant to be in the demo: maria Admin, carlos Supervisor, ana Agente, joao without access. */
export const demoPeople = (passwordOf: (username: string) => string): DemoPerson[] =>
  [
    { username: 'maria', name: 'Maria Silva', email: 'maria@demo.example' },
    { username: 'carlos', name: 'Carlos Lima', email: 'carlos@demo.example' },
    { username: 'ana', name: 'Ana Souza', email: 'ana@demo.example' },
    { username: 'joao', name: 'João Gonçalves', email: 'joao@demo.example' }
  ].map(person => ({ ...person, password: passwordOf(person.username) }))

/** Returns the environment of a gateway that logs people in here. */
export const startDemoDirectory = async (t: Pick<Test, 'teardown'>, people: readonly DemoPerson[]) => {
  const base: Entry = { dn: BASE_DN, password: undefined, attributes: { objectClass: ['domain'], dc: ['demo'] } }
  const { url } = await startLdapServer(t, answerFrom([base, ...people.map(entryOf)]))
  return {
    LDAP_ENABLED: 'true',
    LDAP_URL: url,
    LDAP_USER_DN_TEMPLATE: `uid={{username}},ou=people,${BASE_DN}`,
    LDAP_SEARCH_BASE: BASE_DN,
    LDAP_SEARCH_FILTER: '(&(objectClass=inetOrgPerson)(uid={{username}}))'
  }
}

const entryOf = ({ username, password, name, email, groups = [] }: DemoPerson): Entry => ({
  dn: `uid=${escapeDnValue(username)},ou=people,${BASE_DN}`,
  password,
  attributes: {
    objectClass: ['inetOrgPerson'],
    uid: [username],
    cn: [name],
    displayName: [name],
    mail: [email],
    ...(groups.length === 0 ? {} : { memberOf: groups }),
    entryUUID: [uuidFrom(`${username},${BASE_DN}`)]
  }
})

/** The same name has the same UUID (version 8, RFC 9562 §5.8) at every start. */
const uuidFrom = (name: string): string => {
  const hex = createHash('sha256').update(name).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** Result codes of RFC 4511, Appendix A. */
const CODE = { success: 0, invalidCredentials: 49, insufficientAccessRights: 50, unwillingToPerform: 53 }

/** Requests of a connection are answered one after the other, in order. */
const answerFrom = (entries: readonly Entry[]) => {
  const bound = new WeakSet<Socket>()
  const bind = ({ body, socket }: LdapRequest): number => {
    const [, name, credentials] = readElements(body)
    const found = entries.find(({ dn }) => isSameDn(dn, partOf(name).content.toString()))
    bound.delete(socket)
    if (found?.password === undefined || found.password !== partOf(credentials).content.toString())
      return CODE.invalidCredentials
    bound.add(socket)
    return CODE.success
  }
  const search = ({ id, body, socket, send }: LdapRequest): number => {
    if (!bound.has(socket)) return CODE.insufficientAccessRights
    const [base, scope, , , , , filter] = readElements(body)
    const isOfBase = partOf(scope).content[0] === 0
    for (const one of entries)
      if ((!isOfBase || isSameDn(one.dn, partOf(base).content.toString())) && matches(partOf(filter), one))
        send(entry(id, one.dn, one.attributes))
    return CODE.success
  }
  return (request: LdapRequest): void => {
    const { tag, id, socket, send } = request
    if (tag === REQUEST.abandon) return
    if (tag === REQUEST.unbind) return void socket.end()
    let [done, code] = [tag + 1, CODE.unwillingToPerform]
    if (tag === REQUEST.bind) code = bind(request)
    if (tag === REQUEST.search) [done, code] = [0x65, search(request)]
    send(result(id, done, code))
  }
}

/** The filters of RFC 4511 §4.5.1.7 that a login needs: and, or, not, presence and equality. */
const matches = ({ tag, content }: BerElement, one: Entry): boolean => {
  const valuesOf = (type: Buffer) =>
    Object.entries(one.attributes).find(([name]) => name.toLowerCase() === type.toString().toLowerCase())?.[1] ?? []
  const inner = (element: BerElement) => matches(element, one)
  if (tag === 0xa0) return readElements(content).every(inner)
  if (tag === 0xa1) return readElements(content).some(inner)
  if (tag === 0xa2) return !readElements(content).some(inner)
  if (tag === 0x87) return valuesOf(content).length > 0
  const [type, wanted] = readElements(content)
  const text = partOf(wanted).content.toString().toLowerCase()
  return tag === 0xa3 && valuesOf(partOf(type).content).some(value => value.toLowerCase() === text)
}
