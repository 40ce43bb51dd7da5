// Sends people where they wanted to go after a login, never in a loop; or to their applications.
import { isForHost, isPopup, isPopupDone, returnTo } from './login-state.ts'
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

/**
 * The page that opened this pop-up keeps its own token: if it had one, it receives the new one. The name of its person, if that is
 * somebody else, who is not replaced unasked.
 */
const handBack = (user: User, toAnyone: boolean): string | undefined => {
  try {
    const kept = window.opener?.sessionStorage as Storage | undefined
    const token = keptToken()
    if (token !== undefined && kept?.getItem('authToken')) {
      const owner = JSON.parse(kept.getItem('authUser') ?? '{}') as Partial<User>
      if (owner.id !== user.id && !toAnyone) return owner.name || owner.username || ''
      kept.setItem('authToken', token)
      kept.setItem('authUser', sessionStorage.getItem('authUser') ?? '')
    }
  } catch {
    // A page of another origin receives nothing of this session.
  }
  // Pages compare whose session they have when they hear of a login.
  announce({ kind: 'login', userId: user.id })
  return undefined
}

const isOpenedElsewhere = (): boolean => {
  try {
    return window.opener !== null && window.opener.document === undefined
  } catch {
    return true
  }
}

/**
 * Whether this page is being left for good, or who owns the page that asked. A new login always leads on; an old one only if it
 * has not just been sent there.
 */
export const leave = (user: User, { isFresh = false, toAnyone = false } = {}): boolean | { readonly owner: string } => {
  if (isPopup && !isForHost) {
    // No login took place in this window. If it closed, a page of another origin would learn that the visitor has a session.
    if (isPopupDone && isOpenedElsewhere()) return false
    const owner = handBack(user, toAnyone)
    if (owner !== undefined) return { owner }
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
