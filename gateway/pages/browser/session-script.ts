// Keeps the session of any page behind the gateway fresh, renews it while the page is used, and announces its end without losing
// the page.
//
//   <script src="/auth/session.js" data-warn-seconds="300" defer></script>
//
// Notifies the page with `portaria:session` on window, detail `{state, expiresAt}`: `active`, `refreshed`, `ending`, `ended`. A page
// that calls preventDefault() on `ending` or `ended` shows something of its own; `event.detail.logIn()` opens the login.
import {
  aheadMsBy,
  endQuietly,
  forget,
  isAway,
  keptToken,
  keptUserId,
  logInAgain,
  onNews,
  refresh,
  send
} from './session.ts'
import type { User } from './shapes.ts'

type State = 'active' | 'refreshed' | 'ending' | 'ended'

const script = document.currentScript as HTMLScriptElement | null
const warnMs = Math.max(0, Number(script?.dataset.warnSeconds ?? '300')) * 1000
const isPortuguese = (document.documentElement.lang || navigator.language).toLowerCase().startsWith('pt')
const say = (pt: string, en: string): string => (isPortuguese ? pt : en)
const words = {
  ending: say('A sua sessão termina em breve.', 'Your session ends soon.'),
  ended: say('A sua sessão terminou.', 'Your session has ended.'),
  note: say(
    'Entre de novo em outra janela: esta página continua como está.',
    'Log in again in another window: this page stays as it is.'
  ),
  logIn: say('Entrar de novo', 'Log in again'),
  later: say('Depois', 'Later')
}

const STYLE = `
  dialog { font: 16px/1.5 system-ui, sans-serif; color: #16211f; background: #fff; border: 1px solid #d3ddda; border-radius: 14px;
    padding: 1.25rem; margin: auto 1rem 1rem auto; max-width: min(24rem, calc(100vw - 2rem)); box-shadow: 0 12px 32px #0004 }
  h2 { font-size: 1.1rem; margin: 0 0 .4rem } p { margin: 0 0 1rem } div { display: flex; gap: .6rem }
  button { font: inherit; font-weight: 600; padding: .5rem 1rem; border-radius: 10px; border: 1px solid #7c8d89; background: none; color: inherit; cursor: pointer }
  .main { background: #0f6b5c; border-color: #0f6b5c; color: #fff }
  @media (prefers-color-scheme: dark) { dialog { color: #e6eeec; background: #161e1d; border-color: #2d3b38 }
    .main { background: #63cdb8; border-color: #63cdb8; color: #06211c } }`

const MAX_WAIT_MS = 60_000
/** Whose page this is: the person of the first response. */
let ownerId: number | undefined
/** How far the clock of this device is ahead of the gateway's; below 0: behind. */
let aheadMs = 0
let expiresAt = 0
/** Seconds since the epoch; 0: the session cannot be renewed. */
let renewsAt = 0
/** By the gateway's clock, ms since the epoch: until then no renewal is tried, because one has failed. */
let retryAt = 0
/** Somebody has used the page since the last renewal; opening it counts. */
let wasUsed = true
let timer = 0
/** Takes away what is shown. */
let hide = (): void => undefined

const show = (state: 'ending' | 'ended') => {
  hide()
  const host = document.createElement('portaria-session')
  const root = host.attachShadow({ mode: 'open' })
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(STYLE)
  root.adoptedStyleSheets = [sheet]
  const make = (name: string, text: string, parent: Element) => {
    const element = document.createElement(name)
    element.textContent = text
    parent.append(element)
    return element
  }
  const dialog = document.createElement('dialog')
  dialog.setAttribute('aria-labelledby', 'title')
  make('h2', words[state], dialog).id = 'title'
  make('p', words.note, dialog)
  const buttons = make('div', '', dialog)
  const again = make('button', words.logIn, buttons)
  again.className = 'main'
  again.addEventListener('click', logInAgain)
  if (state === 'ending') make('button', words.later, buttons).addEventListener('click', () => hide())
  root.append(dialog)
  document.body.append(host)
  hide = () => {
    // Gives the focus back.
    dialog.close()
    host.remove()
  }
  // Without a session, nothing on the page would work.
  if (state === 'ended') return dialog.showModal()
  // A warning leaves it usable, and the focus where somebody types.
  host.role = 'alert'
  dialog.open = true
}

let told: State | undefined
const tell = (state: State) => {
  if (told === state && state !== 'refreshed') return
  told = state
  const event = new CustomEvent('portaria:session', {
    cancelable: true,
    detail: { state, expiresAt, logIn: logInAgain }
  })
  const isOurs = window.dispatchEvent(event)
  if (state === 'active' || state === 'refreshed') hide()
  else if (isOurs) show(state)
}

const isOther = ({ id }: User) => ownerId !== undefined && ownerId !== id

const renewed = async () => {
  const answer = await refresh()
  if (answer.status === 200 && !isOther(answer.body.user)) tell('refreshed')
  return answer
}

/** By the gateway's clock. */
const now = () => Date.now() - aheadMs

const mayRenew = () => renewsAt > 0 && now() >= Math.max(renewsAt * 1000, retryAt)

/** If it fails, a later use tries again. */
const renew = async (): Promise<void> => {
  wasUsed = false
  renewsAt = 0
  const { status } = await renewed()
  retryAt = status === 200 ? 0 : now() + MAX_WAIT_MS
  await look()
}

const lookIn = (ms: number) => {
  window.clearTimeout(timer)
  timer = window.setTimeout(look, ms)
}

const plan = () => {
  window.clearTimeout(timer)
  const left = expiresAt * 1000 - now()
  if (left <= 0) return tell('ended')
  if (mayRenew() && wasUsed) return void renew()
  tell(left <= warnMs ? 'ending' : 'active')
  const untilRenewal = renewsAt * 1000 - now()
  const next = Math.min(left > warnMs ? left - warnMs : left, untilRenewal > 0 ? untilRenewal : left)
  lookIn(Math.min(MAX_WAIT_MS, Math.max(250, next)))
}

/** Requests by cookie, such as those of other tabs, renew the cookie but not the token of this tab. */
const goOnByCookie = async (token: string): Promise<void> => {
  const answer = await send('/auth/me', { token: '' })
  if (isAway(answer)) return lookIn(MAX_WAIT_MS)
  // A pop-up may have brought another one in the meantime.
  if (keptToken() !== token) return look()
  if (answer.status !== 200 && answer.code !== 'GW_TOKEN_STALE') return tell('ended')
  forget()
  return look()
}

const look = async (): Promise<void> => {
  const token = keptToken()
  const answer = await send<User>('/auth/me', { token })
  const renewal = answer.code === 'GW_TOKEN_STALE' ? await renewed() : answer
  if (isAway(renewal)) return lookIn(MAX_WAIT_MS)
  if (renewal.status !== 200) return token === undefined ? tell('ended') : goOnByCookie(token)
  if (renewal !== answer) return look()
  // Nothing that one person has begun is saved as another: a reload could send a form again, or fill it in.
  if (isOther(answer.body)) return location.replace(location.pathname + location.search)
  ownerId = answer.body.id
  aheadMs = aheadMsBy(answer)
  expiresAt = Number(answer.headers.get('portaria-session-expires') ?? 0)
  renewsAt = Number(answer.headers.get('portaria-session-renews') ?? 0)
  plan()
}

onNews(({ kind, userId }) => {
  // The other tab may have had a login of its own; that of this tab ends too.
  if (kind === 'logout' && userId === keptUserId()) void endQuietly().then(look)
  else void look()
})
for (const use of ['pointerdown', 'keydown'])
  window.addEventListener(use, () => {
    wasUsed = true
    if (mayRenew()) void renew()
  })
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
void look()
