// Sends people where they wanted to go after a login, never in a loop.
import { isPopup, returnTo } from './login-state.ts'
import { keptToken, type User } from './session.ts'

const SENT = 'portaria.sentTo'
/** If someone is sent to the same place again this soon, that place does not accept the session. */
const CIRCLE_MS = 10_000

const isCircle = (path: string): boolean => {
  const [at = '', before] = (sessionStorage.getItem(SENT) ?? '').split(' ')
  sessionStorage.setItem(SENT, `${Date.now()} ${path}`)
  return before === path && Date.now() - Number(at) < CIRCLE_MS
}

/** The page that opened this pop-up keeps its own token: if it had one, it receives the new one. */
const handBack = (): void => {
  try {
    const kept = window.opener?.sessionStorage as Storage | undefined
    const token = keptToken()
    if (kept === undefined || token === undefined || kept.getItem('authToken') === null) return
    kept.setItem('authToken', token)
    kept.setItem('authUser', sessionStorage.getItem('authUser') ?? '')
  } catch {
    // A page of another origin receives nothing of this session.
  }
}

/** Whether this page is being left for good. A new login always leads on; an old one only if it has not just been sent there. */
export const leave = (user: User): boolean => {
  if (isPopup) {
    handBack()
    window.close()
    return true
  }
  if (returnTo === undefined || user.accessStatus !== 'assigned' || isCircle(returnTo)) return false
  location.replace(location.origin + returnTo)
  return true
}
