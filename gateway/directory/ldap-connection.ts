// Speaks LDAP on one connection, in well-formed messages of bounded size: bind, search, WhoAmI. Every failure says how far the person's bind got.
import { isUtf8 } from 'node:buffer'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import {
  AndFilter,
  ApproximateFilter,
  Client,
  EqualityFilter,
  ExtensibleFilter,
  type Filter,
  GreaterThanEqualsFilter,
  LessThanEqualsFilter,
  NotFilter,
  OrFilter,
  PasswordPolicyControl,
  PresenceFilter,
  ResultCodeError,
  SASL_MECHANISMS,
  type SearchOptions,
  SubstringFilter
} from 'ldapts'
import { type LdapFilter, parseLdapFilter } from '../values/ldap-text.ts'
import type { Deadline } from './deadline.ts'
import { type DialedServer, destroyWith } from './dial.ts'
import { type BindOutcome, bindRefusal, DirectoryFailure, policyRefusal, searchRefusal } from './failure.ts'
import { createMessageReader, DisconnectionNotice, LdapFault, OPERATION, readResponse } from './messages.ts'
import type { DirectoryEntry } from './person.ts'

export type { Filter } from 'ldapts'

export interface FoundEntry extends DirectoryEntry {
  readonly dn: string
}

export interface Search {
  readonly scope?: 'base' | 'sub'
  readonly filter?: Filter | string
  readonly attributes: readonly string[]
  /** Attributes to return as bytes, not as text. */
  readonly binary?: boolean
  /** The maximum number of entries; two by default. */
  readonly most?: number
  readonly paged?: boolean
}

export type LdapConnection = ReturnType<typeof openLdapConnection>

/** ldapts turns a bind with such a name into a SASL bind. */
export const isMechanism = (bindName: string): boolean =>
  SASL_MECHANISMS.some(mechanism => mechanism === bindName.toUpperCase())

/** @throws Error if the text is not a filter (RFC 4515). */
export const parseFilter = (text: string): Filter => {
  const filter = parseLdapFilter(text)
  if (filter === undefined) throw new Error('not an LDAP filter')
  return filterOf(filter)
}

/** For the library, whose own parser takes neither blanks, options nor numbers of attributes. */
const filterOf = (filter: LdapFilter): Filter => {
  if (filter.type === 'and') return new AndFilter({ filters: filter.filters.map(filterOf) })
  if (filter.type === 'or') return new OrFilter({ filters: filter.filters.map(filterOf) })
  if (filter.type === 'not') return new NotFilter({ filter: filterOf(filter.filter) })
  if (filter.type === 'extensible') {
    const { attribute: matchType = '', rule = '', withDn: dnAttributes, value } = filter
    return new ExtensibleFilter({ matchType, rule, dnAttributes, value: String(value) })
  }
  const { attribute } = filter
  if (filter.type === 'present') return new PresenceFilter({ attribute })
  if (filter.type === 'substrings') {
    const [initial = '', ...more] = filter.pieces.map(String)
    return new SubstringFilter({ attribute, initial, any: more.slice(0, -1), final: more.at(-1) ?? '' })
  }
  const { operator, value } = filter
  if (operator !== '=') return new COMPARISONS[operator]({ attribute, value: String(value) })
  return new EqualityFilter({ attribute, value: isUtf8(value) ? String(value) : value })
}

const COMPARISONS = { '>=': GreaterThanEqualsFilter, '<=': LessThanEqualsFilter, '~=': ApproximateFilter }

export const allOf = (...filters: Filter[]): Filter => new AndFilter({ filters })
export const anyOf = (...filters: Filter[]): Filter => new OrFilter({ filters })

/** Entries with any of these attribute values. */
export const anyValue = (values: Readonly<Record<string, Buffer | string>>): Filter =>
  anyOf(...Object.entries(values).map(([attribute, value]) => new EqualityFilter({ attribute, value })))

/** Groups that contain `dn` directly or through other groups (LDAP_MATCHING_RULE_IN_CHAIN, MS-ADTS §3.1.1.3.4.4.3). */
export const memberInChain = (dn: string): Filter =>
  new ExtensibleFilter({ matchType: 'member', rule: '1.2.840.113556.1.4.1941', value: dn })

const WHO_AM_I = '1.3.6.1.4.1.4203.1.11.3'
/** protocolError, unwillingToPerform, unavailableCriticalExtension, other: how servers refuse unsupported operations. */
const NOT_KNOWN: ReadonlySet<number> = new Set([2, 12, 53, 80])

/** The search for a person requests at most this many (RFC 4511 §4.5.1.4). */
const MAX_PEOPLE = 2

export const openLdapConnection = ({ socket, giveUp }: DialedServer, deadline: Deadline, timeoutMs: number) => {
  const guard = guardStream(socket, deadline.signal)
  const client = clientOn(guard.stream)
  let bind: BindOutcome = 'unsent'

  const asFailure = (error: unknown): DirectoryFailure => {
    if (error instanceof DirectoryFailure) return error
    const fault = guard.fault()
    if (fault instanceof DisconnectionNotice)
      return searchRefusal('notice of disconnection', fault.resultCode ?? 0, '', 'unsent')
    if (fault !== undefined) return new DirectoryFailure('directory-protocol', fault.message, { cause: fault })
    const reason = guard.stream.destroyed ? 'directory-unreachable' : 'directory-protocol'
    return new DirectoryFailure(reason, error instanceof Error ? error.message.slice(0, 200) : 'failed', {
      cause: error
    })
  }
  const failureOf = (error: unknown): DirectoryFailure => {
    const failure = asFailure(error)
    if (failure.isOfTheServer) giveUp()
    return failure.bind === 'unsent' ? failure.after(bind) : failure
  }
  const run = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await deadline.within(work)
    } catch (error) {
      throw failureOf(error)
    }
  }

  return {
    /** Turns any error into a failure of this exchange. */
    failureOf,
    /** The result of `work`, unless the time of this exchange is up first. */
    within: deadline.within,
    /** Simple bind (RFC 4513 §5.1.3) as the person who is logging in. @throws DirectoryFailure */
    bindPerson: async (name: string, password: string): Promise<void> => {
      bind = 'unanswered'
      await run(bindAs(client, name, password))
      bind = 'accepted'
    },
    /** The same for an account whose failures are not a person's. @throws DirectoryFailure with `bind` unchanged */
    bindOther: (name: string, password: string): Promise<void> =>
      run(
        bindAs(client, name, password).catch((error: unknown) => {
          throw error instanceof DirectoryFailure ? error.after(bind) : error
        })
      ),
    /**
     * `isCut`: there are more entries than were requested, or than the server's own size limit allows.
     * @throws DirectoryFailure; `no-entry` if the base does not exist.
     */
    search: async (base: string, search: Search) => {
      const most = search.most ?? MAX_PEOPLE
      guard.allow(search.paged === true ? most + PAGE : most)
      const options = optionsOf(search, timeoutMs)
      const entries = await run(
        entriesOf(client, base, options, most).catch((error: unknown) => {
          throw error instanceof ResultCodeError
            ? searchRefusal('search', error.code, diagnosticOf(error), bind)
            : error
        })
      )
      // ldapts ends at the first page without entries, though others may follow (RFC 2696 §3).
      if (search.paged === true && entries.length <= most && guard.hasMorePages())
        throw failureOf(new DirectoryFailure('directory-protocol', 'an empty page, and not the last one'))
      // ldapts does not distinguish a search that the server cut short (sizeLimitExceeded) from a complete one.
      return { entries, isCut: entries.length > most || guard.lastResultCode() === 4 }
    },
    /** RFC 4532 §2.1; undefined if the server does not support the operation. */
    whoAmI: async (): Promise<string | undefined> => {
      try {
        return (await deadline.within(client.exop(WHO_AM_I))).value ?? ''
      } catch (error) {
        if (error instanceof ResultCodeError && NOT_KNOWN.has(error.code)) return undefined
        throw failureOf(
          error instanceof ResultCodeError ? searchRefusal('WhoAmI', error.code, diagnosticOf(error), bind) : error
        )
      }
    },
    /** Sends an unbind, which matters only to the directory's log. */
    unbind: (): Promise<void> => deadline.within(client.unbind()).catch(() => {})
  }
}

/** Of a paged search, no more pages than it takes to see that there are more than `most`. */
const entriesOf = async (client: Client, base: string, options: SearchOptions, most: number): Promise<FoundEntry[]> => {
  // Referrals (`searchReferences`) are not followed, because no password may be sent to an address from a response.
  if (options.paged === undefined) return (await client.search(base, options)).searchEntries as FoundEntry[]
  const entries: FoundEntry[] = []
  for await (const { searchEntries } of client.searchPaginated(base, options)) {
    entries.push(...(searchEntries as FoundEntry[]))
    if (entries.length > most) break
  }
  return entries
}

/** Entries in a page (RFC 2696). */
const PAGE = 500

const optionsOf = ({ scope = 'sub', filter, attributes, binary, most, paged }: Search, timeoutMs: number) => {
  const options: SearchOptions = {
    scope,
    timeLimit: Math.ceil(timeoutMs / 1000),
    attributes: [...attributes],
    ...(filter === undefined ? {} : { filter: typeof filter === 'string' ? parseFilter(filter) : filter }),
    ...(binary === true ? { explicitBufferAttributes: [...attributes] } : {})
  }
  return paged === true ? { ...options, paged: { pageSize: PAGE } } : { ...options, sizeLimit: most ?? MAX_PEOPLE }
}

const clientOn = (stream: Duplex): Client => {
  let isTaken = false
  return new Client({
    // The connection is already established and secured; `ldap:` keeps the library from doing so again. The deadline is ours.
    url: 'ldap://directory',
    createConnection: () => {
      if (isTaken) throw new Error('the connection to the directory was lost')
      isTaken = true
      // ldapts uses a socket only as a stream, and reads these two properties.
      return Object.assign(stream, { connecting: false, readyState: 'open' }) as unknown as Socket
    }
  })
}

/** Far more than small entries and their envelopes need. */
const MAX_BYTES = 1_048_576
const OTHER_MESSAGES = 62

/** Between the socket and the library, which trusts its input and grows without limit: each chunk is one validated message. */
const guardStream = (socket: Socket, signal: AbortSignal) => {
  let fault: LdapFault | undefined
  let resultCode: number | undefined
  let hasMorePages = false
  let read = (_chunk: Buffer): Buffer[] => []
  let entriesLeft = 0

  const allow = (most: number): void => {
    entriesLeft = most
    read = createMessageReader({ maxBytes: MAX_BYTES, maxMessages: most + OTHER_MESSAGES })
  }
  allow(MAX_PEOPLE)
  const stream = new Duplex({
    // One message per chunk, because ldapts would recurse over several.
    readableObjectMode: true,
    read: () => {},
    write: (chunk, _encoding, done) => {
      socket.write(chunk, done)
    },
    final: done => {
      socket.end(done)
    },
    // Errors are reported by `fault` and by the close event, so that none is emitted without a listener.
    destroy: (_error, done) => {
      socket.destroy()
      done(null)
    }
  })
  destroyWith(stream, signal)
  socket.on('data', (chunk: Buffer) => {
    try {
      for (const message of read(chunk)) {
        const response = readResponse(message)
        resultCode = response.resultCode
        hasMorePages = response.hasMorePages
        if (response.operation === OPERATION.entry) entriesLeft -= 1
        if (entriesLeft < 0) throw new LdapFault('more entries than requested')
        stream.push(message)
      }
    } catch (error) {
      fault ??= error instanceof LdapFault ? error : new LdapFault('unreadable', { cause: error })
      stream.destroy()
    }
  })
  socket.once('close', () => stream.destroy())
  return {
    stream,
    /** Why the connection ended early, if what arrived was not LDAP. */
    fault: () => fault,
    /** Of the last response, which the library sometimes discards. */
    lastResultCode: () => resultCode,
    hasMorePages: () => hasMorePages,
    /** Limits the number of entries from now on; earlier ones do not count. No operation may be in progress. */
    allow
  }
}

const bindAs = async (client: Client, bindName: string, password: string): Promise<void> => {
  const policy = new PasswordPolicyControl()
  try {
    await client.bind(bindName, password, policy)
  } catch (error) {
    if (!(error instanceof ResultCodeError)) throw error
    throw bindRefusal(error.code, diagnosticOf(error), policy.value?.error)
  }
  const refusal = policyRefusal(policy.value?.error, policy.value?.graceAuthNsRemaining !== undefined)
  if (refusal !== undefined) throw refusal
}

/** The server's own text, without the additions of ldapts. */
const diagnosticOf = (error: Error): string => error.message.replace(/ ?Code: 0x[0-9a-f]+$/, '')
