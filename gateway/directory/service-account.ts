// Binds the service account; after a refusal it retries with increasing delays, never once per login.
import { DirectoryFailure } from './failure.ts'
import type { LdapConnection } from './ldap-connection.ts'

export type ServiceAccount = ReturnType<typeof createServiceAccount>

type Bindable = Pick<LdapConnection, 'bindOther' | 'within'>

const FIRST_PAUSE_MS = 60_000
const LAST_PAUSE_MS = 600_000

/** @param clock monotonic ms */
export const createServiceAccount = (
  { dn, password }: { readonly dn: string; readonly password: string },
  clock = () => performance.now()
) => {
  let refusal: { readonly failure: DirectoryFailure; readonly until: number; readonly pauseMs: number } | undefined
  let isTrying = false
  let isAccepted = false
  /** Until one has been accepted, binds are sent one at a time: many at once could all be refused, and lock the account. */
  let first: Promise<void> | undefined

  const tryBind = async (connection: Bindable): Promise<void> => {
    if (refusal !== undefined && (isTrying || clock() < refusal.until)) throw refusal.failure
    const before = refusal
    isTrying = true
    try {
      await connection.bindOther(dn, password)
      refusal = undefined
      isAccepted = true
    } catch (error) {
      if (!(error instanceof DirectoryFailure) || !isVerdict(error)) throw error
      // Several that were under way at once are one refusal.
      if (refusal !== undefined && refusal !== before) throw refusal.failure
      const pauseMs = Math.min((refusal?.pauseMs ?? FIRST_PAUSE_MS / 2) * 2, LAST_PAUSE_MS)
      const failure = new DirectoryFailure('service-account-refused', error.message)
      refusal = { failure, until: clock() + pauseMs, pauseMs }
      isAccepted = false
      throw failure
    } finally {
      isTrying = false
    }
  }

  return {
    /** @throws DirectoryFailure `service-account-refused`, without contacting the directory again so soon. */
    async bind(connection: Bindable): Promise<void> {
      const hasVerdict = () => isAccepted || refusal !== undefined
      while (first !== undefined && !hasVerdict()) await connection.within(first.catch(() => undefined))
      if (hasVerdict()) return tryBind(connection)
      first = tryBind(connection).finally(() => {
        first = undefined
      })
      return first
    }
  }
}

/** The directory responded and refused this account; a busy server or a broken connection proves nothing about it. */
const isVerdict = ({ reason }: DirectoryFailure): boolean =>
  !reason.startsWith('directory-') || reason === 'directory-refused'
