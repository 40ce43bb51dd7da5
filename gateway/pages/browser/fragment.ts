// Takes the result of a cloud login out of the URL before anything else runs, and keeps it only if this tab started one.

const MARK = 'portaria.cloudLogin'
/** No provider's login takes longer. */
const MARK_LIFE_MS = 3_600_000

interface CloudLogin {
  readonly returnTo: string | null
  readonly popup: boolean
  readonly name: string
}

/**
 * Leaves the mark by which this tab, and no other, will accept the result, and returns the name that the result has to bear: a page
 * that opened this tab could lead it to another one meanwhile.
 */
export const markCloudLogin = (login: Omit<CloudLogin, 'name'>): string => {
  // `randomUUID` is missing without TLS.
  const name = crypto.getRandomValues(new Uint32Array(4)).join('')
  sessionStorage.setItem(MARK, JSON.stringify({ ...login, name, startedAt: Date.now() }))
  return name
}

const takeMark = (): CloudLogin | undefined => {
  const text = sessionStorage.getItem(MARK)
  sessionStorage.removeItem(MARK)
  try {
    const { returnTo, popup, name, startedAt } = JSON.parse(text ?? '')
    const age = Date.now() - Number(startedAt)
    if (!(age >= 0 && age < MARK_LIFE_MS)) return undefined
    return { returnTo: typeof returnTo === 'string' ? returnTo : null, popup: popup === true, name: String(name) }
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
  const [, payload, name] = /^#auth=([^&]*)(?:&page=)?(.*)$/s.exec(location.hash) ?? []
  // Without a result, this tab has left the login that it began: no link may bring one for it later.
  const login = takeMark()
  if (payload === undefined) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  const token = tokenIn(payload)
  return login === undefined || token === undefined || login.name !== name ? 'foreign' : { token, login }
}

/** The token from the cloud login of this tab; `foreign`: a link brought one, which is dropped. */
export const arrived = take()
