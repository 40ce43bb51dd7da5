// Speaks LDAP on loopback as its caller says: rightly, or silent, slow, garbled, broken off, refusing, lying; reads why a login failed.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { BerWriter } from 'ldapts'
import type { Test } from 'tap'
import { DirectoryFailure } from '../../gateway/directory/failure.ts'
import { type BerElement, createMessageReader, LdapFault, readElements } from '../../gateway/directory/messages.ts'
import { listen } from './ports.ts'

/** A request as it came: operation tag (RFC 4511 Appendix B) and message id. */
export interface LdapRequest {
  readonly tag: number
  readonly id: number
  /** The operation's content. */
  readonly body: Buffer
  readonly socket: Socket
  /** Sends whole messages or fragments of them. */
  send(...bytes: Buffer[]): void
}

export const REQUEST = { bind: 0x60, unbind: 0x42, abandon: 0x50, search: 0x63, extended: 0x77 } as const

/** First octet of a TLS record with a handshake message (RFC 8446 §5.1); stands among the requests. */
export const TLS_HANDSHAKE = 0x16

/** Calls `answer` for every request; what it does not answer stays unanswered. Runs until `t`'s teardown. */
export const startLdapServer = async (t: Pick<Test, 'teardown'>, answer: (request: LdapRequest) => void = () => {}) => {
  const sockets = new Set<Socket>()
  /** Requests so far, by operation tag. */
  const requests: number[] = []
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => {
      sockets.delete(socket)
      if (sockets.size === 0) server.emit('idle')
    })
    const read = createMessageReader({ maxBytes: 1_048_576, maxMessages: 1000 })
    const onData = (chunk: Buffer) => {
      // A TLS client hello, where LDAP is spoken, stays unanswered.
      if (chunk[0] === TLS_HANDSHAKE) {
        requests.push(TLS_HANDSHAKE)
        socket.off('data', onData)
        socket.resume()
        return
      }
      try {
        for (const message of read(chunk)) onMessage(message)
      } catch (error) {
        if (!(error instanceof LdapFault)) throw error
        socket.destroy()
      }
    }
    const onMessage = (message: Buffer) => {
      const [id, operation] = readElements(partOf(readElements(message)[0]).content)
      const { tag, content: body } = partOf(operation)
      requests.push(tag)
      const send = (...bytes: Buffer[]) => void socket.write(Buffer.concat(bytes))
      answer({ tag, id: partOf(id).content.readIntBE(0, partOf(id).content.length), body, socket, send })
    }
    socket.on('data', onData)
  })
  const port = await listen(t, server)
  return {
    url: `ldap://127.0.0.1:${port}`,
    port,
    requests,
    /** Those open now. */
    connections: () => sockets.size,
    /** Resolves when no connection is open any more. */
    idle: async () => {
      if (sockets.size > 0) await once(server, 'idle')
    }
  }
}

/** An element that must be there. */
export const partOf = (element: BerElement | undefined): BerElement => {
  if (element === undefined) throw new LdapFault('a request that is cut short')
  return element
}

const message = (
  id: number,
  tag: number,
  write: (writer: BerWriter) => void,
  controls?: (writer: BerWriter) => void
): Buffer => {
  const writer = new BerWriter()
  writer.startSequence()
  writer.writeInt(id)
  writer.startSequence(tag)
  write(writer)
  writer.endSequence()
  controls?.(writer)
  writer.endSequence()
  return writer.buffer
}

/** A response with a result code: bind 0x61, search done 0x65, extended 0x78. */
export const result = (
  id: number,
  tag: number,
  code = 0,
  diagnostic = '',
  more?: (writer: BerWriter) => void
): Buffer =>
  message(id, tag, writer => {
    writer.writeEnumeration(code)
    writer.writeString('')
    writer.writeString(diagnostic)
    more?.(writer)
  })

/** A notice of disconnection (RFC 4511 §4.4.1). */
export const disconnection = (code: number): Buffer =>
  result(0, 0x78, code, '', writer => writer.writeString('1.3.6.1.4.1.1466.20036', 0x8a))

/** The end of a page that others follow (RFC 2696 §2). */
export const endOfPage = (id: number): Buffer => {
  const value = new BerWriter()
  value.startSequence()
  value.writeInt(0)
  value.writeString('next')
  value.endSequence()
  const done = (writer: BerWriter) => {
    writer.writeEnumeration(0)
    writer.writeString('')
    writer.writeString('')
  }
  return message(id, 0x65, done, writer => {
    writer.startSequence(0xa0)
    writer.startSequence()
    writer.writeString('1.2.840.113556.1.4.319')
    writer.writeBuffer(value.buffer, 0x04)
    writer.endSequence()
    writer.endSequence()
  })
}

export const entry = (
  id: number,
  dn: string,
  attributes: Readonly<Record<string, readonly (string | Buffer)[]>>
): Buffer =>
  message(id, 0x64, writer => {
    writer.writeString(dn)
    writer.startSequence()
    for (const [name, values] of Object.entries(attributes)) {
      writer.startSequence()
      writer.writeString(name)
      writer.startSequence(0x31)
      for (const value of values) writer.writeBuffer(Buffer.from(value), 0x04)
      writer.endSequence()
      writer.endSequence()
    }
    writer.endSequence()
  })

export const reference = (id: number, ...urls: string[]): Buffer =>
  message(id, 0x73, writer => writer.writeStringArray(urls))

/** A WhoAmI response (RFC 4532 §2.2). */
export const identity = (id: number, name: string): Buffer =>
  result(id, 0x78, 0, '', writer => writer.writeString(name, 0x8b))

/** Why a login at a directory failed; throws if it did not. */
export const failureOf = async (login: Promise<unknown>): Promise<DirectoryFailure> => {
  const error = await login.then(
    () => new Error('the login succeeded'),
    (reason: unknown) => reason
  )
  if (error instanceof DirectoryFailure) return error
  throw error
}
