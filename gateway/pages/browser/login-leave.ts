// Sends people where they wanted to go after a login, never in a loop; or to their applications.
import { isForHost, isPopup, returnTo } from './login-state.ts'
import { announce, ask, fact, keptToken } from './session.ts'
import type { User } from './shapes.ts'

const SENT = 'portaria.sentTo'
/** If someone is sent to the same place again this soon, that place does not accept the session. */
const CIRCLE_MS = 10_000

const isCircle = (path: string): boolean => {
  const [at = '', before] = (sessionStorage.getItem(SENT) ?? '').split(' ')
  // A browser that keeps no cookie of a host gets another challenge each time.
  const place = path.replace(/&challenge=.*$/, '')
  sessionStorage.setItem(SENT, `${Date.now()} ${place}`)
  return before === place && Date.now() - Number(at) < CIRCLE_MS
}

type Handed =
  | 'done'
  /** The page that asked for the login belongs to this person. */
  | { readonly owner: string }

/** The page that opened this pop-up keeps its own token: if it had one, it receives the new one, unless that is somebody else's. */
const handBack = (user: User, toAnyone: boolean): Handed => {
  try {
    const kept = window.opener?.sessionStorage as Storage | undefined
    const token = keptToken()
    // Pages compare whose session they have when they hear of a login.
    if (token === undefined) announce({ kind: 'login', userId: user.id })
    if (kept === undefined || token === undefined || kept.getItem('authToken') === null) return 'done'
    const owner = JSON.parse(kept.getItem('authUser') ?? '{}') as Partial<User>
    if (owner.id !== user.id && !toAnyone) return { owner: owner.name || owner.username || '' }
    kept.setItem('authToken', token)
    kept.setItem('authUser', sessionStorage.getItem('authUser') ?? '')
    // Pages compare whose token they keep when they hear of a login.
    announce({ kind: 'login', userId: user.id })
  } catch {
    // A page of another origin receives nothing of this session.
  }
  return 'done'
}

/**
 * Whether this page is being left for good, or who owns the page that asked. A new login always leads on; an old one only if it
 * has not just been sent there.
 */
export const leave = (user: User, { isFresh = false, toAnyone = false } = {}): boolean | { readonly owner: string } => {
  if (isPopup && !isForHost) {
    const handed = handBack(user, toAnyone)
    if (handed !== 'done') return handed
    window.close()
    return true
  }
  // People without access wait on this page, which shows them when they get it; their own account is open to them.
  const isOpen = user.accessStatus === 'assigned' || returnTo === '/auth/account'
  if (returnTo === undefined || !isOpen || (isCircle(returnTo) && !isFresh)) return false
  location.replace(location.origin + returnTo)
  return true
}

/** After a login that nothing asked for: the applications, if there are any for this person. */
export const leaveForApps = async (user: User): Promise<boolean> => {
  if (isPopup || returnTo !== undefined || fact('apps') !== 'true' || user.accessStatus !== 'assigned') return false
  const { status, body } = await ask<{ readonly items: readonly unknown[] }>('/auth/apps')
  if (status !== 200 || body.items.length === 0) return false
  location.replace('/auth/apps')
  return true
}
