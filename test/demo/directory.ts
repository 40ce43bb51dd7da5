// Answers binds and searches about the demo's people, as a small LDAP directory on loopback.
import { createHash } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import { BerWriter } from 'ldapts'
import { type BerElement, createMessageReader, LdapFault, readElements } from '../../gateway/directory/messages.ts'
import { escapeDnValue } from '../../gateway/directory/names.ts'
import { isSameDn } from '../../gateway/values/ldap-text.ts'
import { type LocalServer, listenLocally } from './local-server.ts'

export interface DemoPerson {
  readonly username: string
  readonly password: string
  readonly name: string
  readonly email: string
  /** DNs of groups. */
  readonly groups?: readonly string[]
}

interface DemoDirectory extends LocalServer {
  /** Environment of a gateway that logs people in here. */
  readonly environment: Readonly<Record<string, string>>
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

/** Listens on a free port of 127.0.0.1. */
export const startDemoDirectory = async ({ people }: { people: readonly DemoPerson[] }): Promise<DemoDirectory> => {
  const base: Entry = { dn: BASE_DN, password: undefined, attributes: { objectClass: ['domain'], dc: ['demo'] } }
  const entries = [base, ...people.map(entryOf)]
  const server = await listenLocally(
    createServer(socket => serve(socket, entries)),
    0,
    'ldap'
  )
  return {
    ...server,
    environment: {
      LDAP_ENABLED: 'true',
      LDAP_URL: server.url,
      LDAP_USER_DN_TEMPLATE: `uid={{username}},ou=people,${BASE_DN}`,
      LDAP_SEARCH_BASE: BASE_DN,
      LDAP_SEARCH_FILTER: '(&(objectClass=inetOrgPerson)(uid={{username}}))'
    }
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

/** RFC 4511 §4.2 to §4.5. */
const TAG = { unbind: 0x42, abandon: 0x50, bind: 0x60, search: 0x63, entry: 0x64, searchDone: 0x65 }
const CODE = { success: 0, invalidCredentials: 49, insufficientAccessRights: 50, unwillingToPerform: 53 }

/** Requests of a connection are answered one after the other, in order. */
const serve = (socket: Socket, entries: readonly Entry[]): void => {
  const read = createMessageReader({ maxBytes: 1_048_576, maxMessages: 1000 })
  let isBound = false
  const bind = ([, name, credentials]: BerElement[]): number => {
    const entry = entries.find(({ dn }) => isSameDn(dn, part(name).content.toString()))
    isBound = entry?.password !== undefined && entry.password === part(credentials).content.toString()
    return isBound ? CODE.success : CODE.invalidCredentials
  }
  const search = (messageId: number, [base, scope, , , , , filter]: BerElement[]): number => {
    if (!isBound) return CODE.insufficientAccessRights
    const isOfBase = part(scope).content[0] === 0
    const inScope = isOfBase ? entries.filter(({ dn }) => isSameDn(dn, part(base).content.toString())) : entries
    for (const entry of inScope.filter(entry => matches(part(filter), entry)))
      socket.write(messageOf(messageId, TAG.entry, writer => writeEntry(writer, entry)))
    return CODE.success
  }
  const answer = (message: Buffer): void => {
    const [id, operation] = readElements(part(readElements(message)[0]).content)
    const messageId = part(id).content.readIntBE(0, part(id).content.length)
    const { tag, content } = part(operation)
    if (tag === TAG.abandon) return
    if (tag === TAG.unbind) return void socket.end()
    let code = CODE.unwillingToPerform
    if (tag === TAG.bind) code = bind(readElements(content))
    if (tag === TAG.search) code = search(messageId, readElements(content))
    const done = tag === TAG.search ? TAG.searchDone : tag + 1
    socket.write(messageOf(messageId, done, writer => writeResult(writer, code)))
  }
  socket.on('error', () => {})
  socket.on('data', (chunk: Buffer) => {
    try {
      for (const message of read(chunk)) answer(message)
    } catch {
      socket.destroy()
    }
  })
}

/** The filters of RFC 4511 §4.5.1.7 that a login needs: and, or, not, presence and equality. */
const matches = ({ tag, content }: BerElement, entry: Entry): boolean => {
  const valuesOf = (type: Buffer) =>
    Object.entries(entry.attributes).find(([name]) => name.toLowerCase() === type.toString().toLowerCase())?.[1] ?? []
  const inner = (element: BerElement) => matches(element, entry)
  if (tag === 0xa0) return readElements(content).every(inner)
  if (tag === 0xa1) return readElements(content).some(inner)
  if (tag === 0xa2) return !readElements(content).some(inner)
  if (tag === 0x87) return valuesOf(content).length > 0
  const [type, wanted] = readElements(content)
  const text = part(wanted).content.toString().toLowerCase()
  return tag === 0xa3 && valuesOf(part(type).content).some(value => value.toLowerCase() === text)
}

const part = (element: BerElement | undefined): BerElement => {
  if (element === undefined) throw new LdapFault('a request that is cut short')
  return element
}

const messageOf = (messageId: number, tag: number, write: (writer: BerWriter) => void): Buffer => {
  const writer = new BerWriter()
  writer.startSequence()
  writer.writeInt(messageId)
  writer.startSequence(tag)
  write(writer)
  writer.endSequence()
  writer.endSequence()
  return writer.buffer
}

const writeResult = (writer: BerWriter, code: number): void => {
  writer.writeEnumeration(code)
  writer.writeString('')
  writer.writeString('')
}

const writeEntry = (writer: BerWriter, { dn, attributes }: Entry): void => {
  writer.writeString(dn)
  writer.startSequence()
  for (const [name, values] of Object.entries(attributes)) {
    writer.startSequence()
    writer.writeString(name)
    writer.startSequence(0x31)
    writer.writeStringArray([...values])
    writer.endSequence()
    writer.endSequence()
  }
  writer.endSequence()
}
