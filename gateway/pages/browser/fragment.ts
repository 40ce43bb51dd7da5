// Takes the result of a cloud login out of the URL before anything else runs, and keeps it only if this tab started one.

const MARK = 'portaria.cloudLogin'
/** No provider's login takes longer. */
const MARK_LIFE_MS = 3_600_000

interface CloudLogin {
  readonly returnTo: string | null
  readonly popup: boolean
}

/** Leaves the mark by which this tab, and no other, will accept the result. */
export const markCloudLogin = (login: CloudLogin): void =>
  sessionStorage.setItem(MARK, JSON.stringify({ ...login, startedAt: Date.now() }))

const takeMark = (): CloudLogin | undefined => {
  const text = sessionStorage.getItem(MARK)
  sessionStorage.removeItem(MARK)
  try {
    const { returnTo, popup, startedAt } = JSON.parse(text ?? '')
    const age = Date.now() - Number(startedAt)
    if (!(age >= 0 && age < MARK_LIFE_MS)) return undefined
    return { returnTo: typeof returnTo === 'string' ? returnTo : null, popup: popup === true }
  } catch {
    return undefined
  }
}

const tokenIn = (payload: string): string | undefined => {
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), c => c.charCodeAt(0))
    const { token } = JSON.parse(new TextDecoder().decode(bytes))
    return typeof token === 'string' && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token) ? token : undefined
  } catch {
    return undefined
  }
}

const take = (): { token: string; login: CloudLogin } | 'foreign' | undefined => {
  const payload = /^#auth=(.*)$/s.exec(location.hash)?.[1]
  // Without a result, this tab has left the login that it began: no link may bring one for it later.
  const login = takeMark()
  if (payload === undefined) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  const token = tokenIn(payload)
  return login === undefined || token === undefined ? 'foreign' : { token, login }
}

/** The token from a cloud login of this tab; `foreign`: a link brought one, which is dropped. */
export const arrived = take()
