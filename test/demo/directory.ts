// A small LDAP directory with the demo's people answers on loopback: bind, search, WhoAmI, nothing else.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { BerWriter } from 'ldapts'
import { type BerElement, createMessageReader, LdapFault, readElements } from '../../gateway/directory/messages.ts'
import {
  type DemoEntry,
  type DemoPerson,
  demoEntries,
  findEntry,
  isInScope,
  matchesFilter,
  selectAttributes
} from './directory-entries.ts'

export interface DemoDirectory {
  readonly url: string
  readonly baseDn: string
  /** Environment of a gateway that logs people in here. */
  readonly environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Who they are meant to be in the demo: maria Admin, carlos Supervisor, ana Agente, joao without access. */
export const demoPeople = (passwordOf: (username: string) => string): DemoPerson[] =>
  [
    { username: 'maria', name: 'Maria Silva', email: 'maria@demo.example' },
    { username: 'carlos', name: 'Carlos Lima', email: 'carlos@demo.example' },
    { username: 'ana', name: 'Ana Souza', email: 'ana@demo.example' },
    { username: 'joao', name: 'João Gonçalves', email: 'joao@demo.example' }
  ].map(person => ({ ...person, password: passwordOf(person.username) }))

const BASE_DN = 'dc=demo,dc=example'
const WHO_AM_I = '1.3.6.1.4.1.4203.1.11.3'
const CODE = {
  success: 0,
  protocolError: 2,
  sizeLimitExceeded: 4,
  authMethodNotSupported: 7,
  unavailableCriticalExtension: 12,
  noSuchObject: 32,
  invalidCredentials: 49,
  insufficientAccessRights: 50,
  unwillingToPerform: 53
}

/** Result of an operation: code, and further parts of the response written behind it. */
interface Outcome {
  readonly code: number
  readonly more?: (writer: BerWriter) => void
}

/** Listens on a free port of 127.0.0.1. */
export const startDemoDirectory = async ({ people }: { people: readonly DemoPerson[] }): Promise<DemoDirectory> => {
  const entries = demoEntries(BASE_DN, people)
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    serve(socket, entries)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const url = `ldap://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  return {
    url,
    baseDn: BASE_DN,
    environment: {
      LDAP_ENABLED: 'true',
      LDAP_URL: url,
      LDAP_USER_DN_TEMPLATE: `uid={{username}},ou=people,${BASE_DN}`,
      LDAP_SEARCH_BASE: BASE_DN,
      LDAP_SEARCH_FILTER: '(&(objectClass=inetOrgPerson)(uid={{username}}))'
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise(resolve => server.close(() => resolve()))
    }
  }
}

/** One connection: requests are answered one after the other, in order. */
const serve = (socket: Socket, entries: readonly DemoEntry[]): void => {
  const read = createMessageReader({ maxBytes: 1_048_576, maxMessages: 1000 })
  const session: Session = { entries, boundDn: '', reply: bytes => socket.write(bytes) }
  socket.on('error', () => {})
  socket.on('data', (chunk: Buffer) => {
    try {
      for (const message of read(chunk)) if (!answer(session, message)) socket.end()
    } catch {
      socket.destroy()
    }
  })
}

interface Session {
  readonly entries: readonly DemoEntry[]
  /** `''`: anonymous. */
  boundDn: string
  readonly reply: (bytes: Buffer) => void
}

/** Answers one request; false when it was a good-bye. */
const answer = (session: Session, message: Buffer): boolean => {
  const [envelope] = readElements(message)
  const [id, operation, controls] = readElements(part(envelope).content)
  const messageId = part(id).content.readIntBE(0, part(id).content.length)
  const { tag, content } = part(operation)
  const respond = (responseTag: number, outcome: Outcome) =>
    session.reply(envelopeOf(messageId, responseTag, writer => writeResult(writer, outcome)))

  if (tag === 0x42) return false
  if (tag === 0x50) return true
  if (controls !== undefined && hasCriticalControl(controls)) {
    respond(tag === 0x63 ? 0x65 : tag + 1, { code: CODE.unavailableCriticalExtension })
  } else if (tag === 0x60) respond(0x61, bind(session, readElements(content)))
  else if (tag === 0x63) respond(0x65, search(session, messageId, readElements(content)))
  else if (tag === 0x77) respond(0x78, extended(session, readElements(content)))
  // Every other request's response has the next tag; a delete request is primitive (RFC 4511 §4.8).
  else respond(tag === 0x4a ? 0x6b : tag + 1, { code: CODE.unwillingToPerform })
  return true
}

const bind = (session: Session, [version, name, credentials]: BerElement[]): Outcome => {
  session.boundDn = ''
  if (part(version).content[0] !== 3) return { code: CODE.protocolError }
  if (part(credentials).tag !== 0x80) return { code: CODE.authMethodNotSupported }
  const dn = part(name).content.toString()
  const password = part(credentials).content.toString()
  if (dn === '' && password === '') return { code: CODE.success }
  // A name without a password proves nothing (RFC 4513 §5.1.2).
  if (password === '') return { code: CODE.unwillingToPerform }
  const entry = findEntry(session.entries, dn)
  if (entry?.password !== password) return { code: CODE.invalidCredentials }
  session.boundDn = entry.dn
  return { code: CODE.success }
}

const search = (session: Session, messageId: number, request: BerElement[]): Outcome => {
  const [base, scope, , sizeLimit, , typesOnly, filter, attributes] = request
  const baseDn = part(base).content.toString()
  const level = part(scope).content[0] ?? 0
  const wanted = readElements(part(attributes).content).map(({ content }) => content.toString())
  const isRoot = baseDn === '' && level === 0
  if (!isRoot && session.boundDn === '') return { code: CODE.insufficientAccessRights }
  if (!isRoot && baseDn !== '' && findEntry(session.entries, baseDn) === undefined) return { code: CODE.noSuchObject }

  const candidates = isRoot ? [ROOT_DSE] : session.entries.filter(({ dn }) => isInScope(dn, baseDn, level))
  const found = candidates.filter(entry => matchesFilter(part(filter), entry))
  const limitBytes = part(sizeLimit).content
  const limit = limitBytes.readIntBE(0, limitBytes.length)
  for (const entry of limit > 0 ? found.slice(0, limit) : found) {
    const withValues = part(typesOnly).content[0] === 0
    session.reply(envelopeOf(messageId, 0x64, writer => writeEntry(writer, entry, wanted, withValues)))
  }
  return { code: limit > 0 && found.length > limit ? CODE.sizeLimitExceeded : CODE.success }
}

/** RFC 4512 §5.1. */
const ROOT_DSE: DemoEntry = {
  dn: '',
  password: undefined,
  attributes: {
    objectClass: ['top'],
    namingContexts: [BASE_DN],
    supportedLDAPVersion: ['3'],
    supportedExtension: [WHO_AM_I]
  }
}

const extended = (session: Session, [oid]: BerElement[]): Outcome => {
  if (part(oid).content.toString() !== WHO_AM_I) return { code: CODE.protocolError }
  const identity = session.boundDn === '' ? '' : `dn:${session.boundDn}`
  return { code: CODE.success, more: writer => writer.writeString(identity, 0x8b) }
}

const hasCriticalControl = (controls: BerElement): boolean =>
  readElements(controls.content).some(control => {
    const criticality = readElements(control.content)[1]
    return criticality?.tag === 0x01 && criticality.content[0] !== 0
  })

const part = (element: BerElement | undefined): BerElement => {
  if (element === undefined) throw new LdapFault('a request that is cut short')
  return element
}

const envelopeOf = (messageId: number, tag: number, write: (writer: BerWriter) => void): Buffer => {
  const writer = new BerWriter()
  writer.startSequence()
  writer.writeInt(messageId)
  writer.startSequence(tag)
  write(writer)
  writer.endSequence()
  writer.endSequence()
  return writer.buffer
}

const writeResult = (writer: BerWriter, { code, more }: Outcome): void => {
  writer.writeEnumeration(code)
  writer.writeString('')
  writer.writeString('')
  more?.(writer)
}

const writeEntry = (writer: BerWriter, entry: DemoEntry, wanted: readonly string[], withValues: boolean): void => {
  writer.writeString(entry.dn)
  writer.startSequence()
  for (const [name, values] of selectAttributes(entry, wanted)) {
    writer.startSequence()
    writer.writeString(name)
    writer.startSequence(0x31)
    writer.writeStringArray(withValues ? [...values] : [])
    writer.endSequence()
    writer.endSequence()
  }
  writer.endSequence()
}
