// Begins the pages of people who are logged in, follows their session, and shows the header with brand, person and language.
import './pages.css'
import './console.css'
import { problemOf, reloadAll } from './console-data.ts'
import { actOf, Confirm, Dialog, Name } from './console-parts.ts'
import { LanguageSwitch, useLanguage } from './language.ts'
import { findPageSession, followPageSession, goOnByCookie, leavePageSession } from './page-session.ts'
import { Boundary, type ComponentChildren, html, render, useEffect, useState, type VNode } from './render.ts'
import { brand, fact, logInAgain, loginAddress } from './session.ts'
import { nameOf, type User } from './shapes.ts'
import { giveUpUnsaved, hasUnsaved } from './unsaved.ts'
import { text } from './words-pages.ts'

/** Asks about unsaved changes first. `leave` runs what would lose them. */
export const useLeave = () => {
  const [leaving, setLeaving] = useState<(() => void) | undefined>()
  const leave = (go: () => void) => (hasUnsaved() ? setLeaving(() => go) : go())
  const act = leaving && actOf(text, 'leave', {}, leaving)
  const question = act && html`<${Confirm} stay=${text('stay')} onClose=${() => setLeaving(undefined)} act=${act} />`
  return { leave, question }
}

interface TopProps {
  readonly user: User
  /** Where the brand leads; undefined: nowhere. */
  readonly home?: string
  readonly children?: ComponentChildren
}

export const Top = ({ user, home, children }: TopProps): VNode => {
  const [problem, setProblem] = useState('')
  const { leave, question } = useLeave()
  const logOut = async () => {
    setProblem('')
    const failed = await leavePageSession(user)
    if (failed !== undefined) setProblem(problemOf(failed))
  }
  return html`
  <header class="top"><a class="brand" href=${home}><span class="mark" aria-hidden="true"></span><bdi>${brand()}</bdi></a>
    <div class="me"><a href="/auth/account" title=${text('account')}><${Name} of=${nameOf(user)} /></a><${LanguageSwitch} isShort label=${text('language')} />
    <button type="button" id="logout" onClick=${() => leave(() => void logOut())}>${text('logout')}</button></div>${children}
    ${problem !== '' && html`<p class="notice" data-error="true" role="alert">${problem}</p>`}</header>${question}`
}

interface SmallPageProps {
  readonly user: User
  readonly current: 'apps' | 'account'
  /** What appears later would move what is below it, so a page is shown as a whole. */
  readonly isReady?: boolean
  readonly children?: ComponentChildren
}

const PAGES = ['apps', 'account', 'console'] as const

/** A page with the way to the others. */
export const SmallPage = ({ user, current, isReady = true, children }: SmallPageProps): VNode => {
  useEffect(() => {
    document.title = `${text(current)} · ${brand()}`
  })
  const hasApps = current === 'apps' || fact('apps') === 'true'
  const isAdmin = user.profiles.includes('Admin')
  const pages = PAGES.filter(page => (page !== 'apps' || hasApps) && (page !== 'console' || isAdmin))
  return html`<${Top} user=${user}><nav aria-label=${text('pages')}>${pages.map(
    page =>
      html`<a key=${page} href=${`/auth/${page}`} aria-current=${page === current ? 'page' : undefined}>${text(page)}</a>`
  )}</nav><//><main id="content" class=${isReady ? '' : 'unready'}><h1>${text(current)}</h1>${children}</main>`
}

interface PageParts {
  readonly view: (user: User) => VNode
  /** Whether a session that the browser keeps in a cookie is enough for what the page shows. */
  readonly takesCookie?: boolean
}

const Problem = ({ words }: { words: string }): VNode => html`<div class="stage"><main class="card"><h1>${brand()}</h1>
  <p role="alert">${words}</p><button type="button" onClick=${() => location.reload()}>${text('retry')}</button></main></div>`

const EndedDialog = (): VNode => html`<${Dialog} title=${text('ended')} isFixed onClose=${() => undefined}>
  <p>${text('endedNote')}</p>
  <div class="buttons"><button type="button" class="main" id="log-in-again" onClick=${logInAgain}>${text('logIn')}</button></div><//>`

const Page = ({ user, view, takesCookie = false }: PageParts & { user: User }): VNode => {
  const [isEnded, setEnded] = useState(false)
  useLanguage()
  const follow = () =>
    followPageSession(user, {
      async onEnded() {
        if (takesCookie && (await goOnByCookie(user))) reloadAll()
        else setEnded(true)
      },
      onRenewed() {
        setEnded(false)
        // Only what is shown: what has been typed or chosen stays.
        reloadAll()
      },
      onOther() {
        // Nothing that one person has begun is saved as another.
        giveUpUnsaved()
        location.reload()
      }
    })
  useEffect(follow, [])
  return html`${view(user)}${isEnded && html`<${EndedDialog} />`}`
}

/** Renders the page of the person who is logged in, or why it is not known who that is. */
export const startPage = async ({ view, takesCookie = false }: PageParts): Promise<void> => {
  const root = document.getElementById('app')
  if (root === null) return
  const pageSession = await findPageSession()
  if (pageSession.is === 'out') return location.replace(loginAddress())
  // A cookie opens applications; what the other pages show needs a token, and so a login in this tab.
  if (pageSession.is === 'cookie' && !takesCookie) return location.replace(loginAddress({ again: true }))
  root.replaceChildren()
  const page =
    pageSession.is === 'unknown'
      ? html`<${Problem} words=${problemOf(pageSession.answer)} />`
      : html`<${Boundary} failed=${() => html`<${Problem} words=${text('pageFailed')} />`}><${Page} user=${pageSession.user} view=${view} takesCookie=${takesCookie} /><//>`
  render(page, root)
}
