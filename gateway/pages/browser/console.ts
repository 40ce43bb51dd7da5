// Runs the console: one section at a time, chosen by the URL, while the session lasts.
import { AreasView } from './areas-view.ts'
import { AuditView } from './audit-view.ts'
import { onSessionEnd } from './console-data.ts'
import { Confirm, Dialog, Name, nameOf } from './console-parts.ts'
import { currentLanguage } from './language.ts'
import { LanguageSwitch } from './language-switch.ts'
import { MatrixView } from './matrix-view.ts'
import { PeopleView } from './people-view.ts'
import { PersonView } from './person-view.ts'
import { html, render, useEffect, useRef, useState, type VNode } from './render.ts'
import { ask, brand, keptToken, logOut, onNews, type User } from './session.ts'
import { StatusView } from './status-view.ts'
import { StreamsView } from './streams-view.ts'
import { giveUpUnsaved, hasUnsaved } from './unsaved.ts'
import { type ConsoleKey, text } from './words-console.ts'

const SECTIONS = ['people', 'areas', 'grants', 'clients', 'streams', 'access', 'traffic', 'status', 'audit'] as const
type Section = (typeof SECTIONS)[number]

interface Place {
  readonly section: Section
  readonly id: string
}

const placeOf = (hash: string): Place => {
  const [, name = '', id = ''] = hash.replace(/^#|\?.*$/g, '').split('/')
  const section = SECTIONS.find(known => known === name) ?? 'people'
  return { section, id: section === 'people' && /^[1-9]\d{0,9}$/.test(id) ? id : '' }
}

const goToLogin = () =>
  location.replace(`/auth/login?returnTo=${encodeURIComponent(location.pathname + location.hash)}`)

/** A section that is loaded when it is first opened. */
const createLate = (load: () => Promise<() => VNode>) => (): VNode => {
  const [View, setView] = useState<(() => VNode) | undefined>()
  useEffect(() => void load().then(view => setView(() => view)), [])
  return View === undefined ? html`<p class="quiet" role="status">${text('loading')}</p>` : html`<${View} />`
}
const LateTraffic = createLate(() => import('./traffic-view.ts').then(({ TrafficView }) => TrafficView))
const LateGrants = createLate(() => import('./grants-view.ts').then(({ GrantsView }) => GrantsView))
const LateClients = createLate(() => import('./clients-view.ts').then(({ ClientsView }) => ClientsView))

const viewOf = ({ section, id }: Place): VNode => {
  switch (section) {
    case 'people':
      return id === '' ? html`<${PeopleView} />` : html`<${PersonView} id=${id} />`
    case 'areas':
      return html`<${AreasView} />`
    case 'grants':
      return html`<${LateGrants} />`
    case 'streams':
      return html`<${StreamsView} />`
    case 'clients':
      return html`<${LateClients} />`
    case 'access':
      return html`<${MatrixView} />`
    case 'traffic':
      return html`<${LateTraffic} />`
    case 'status':
      return html`<${StatusView} />`
    default:
      return html`<${AuditView} />`
  }
}

const EndedDialog = (): VNode => {
  const open = () => {
    if (window.open('/auth/login?popup=1', 'portaria-login', 'popup,width=480,height=720') === null) goToLogin()
  }
  return html`<${Dialog} title=${text('ended')} isFixed onClose=${() => undefined}><p>${text('endedNote')}</p>
    <div class="buttons"><button type="button" class="main" id="log-in-again" onClick=${open}>${text('logIn')}</button></div><//>`
}

interface TopProps {
  readonly user: User
  readonly place: Place
  readonly onLanguage: () => void
  readonly onLogout: () => void
}

const Top = ({ user, place, onLanguage, onLogout }: TopProps): VNode => {
  const sections = useRef<HTMLElement>(null)
  // On a narrow screen the sections are a scrolling strip.
  useEffect(() => {
    sections.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  })
  return html`
  <a class="skip" href="#content" onClick=${(event: Event) => {
    event.preventDefault()
    document.getElementById('content')?.focus()
  }}>${text('skip')}</a>
  <header class="top"><a class="brand" href="#/people"><span class="mark" aria-hidden="true"></span><bdi>${brand()}</bdi></a>
    <div class="me"><${Name} of=${nameOf(user)} /><${LanguageSwitch} short label=${text('language')} onChange=${onLanguage} />
    <button type="button" id="logout" onClick=${onLogout}>${text('logout')}</button></div>
    <nav aria-label=${text('sections')} ref=${sections}>${SECTIONS.map(
      section =>
        html`<a key=${section} href=${`#/${section}`} aria-current=${section === place.section ? 'page' : undefined}>${text(section)}</a>`
    )}</nav></header>`
}

const Refused =
  (): VNode => html`<div class="stage"><main class="card"><h1>${text('onlyAdmins')}</h1><p>${text('onlyAdminsNote')}</p>
  <a class="button main" href="/auth/account">${text('toAccount')}</a></main></div>`

const useSession = (user: User) => {
  const [isEnded, setEnded] = useState(false)
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    const stopEnd = onSessionEnd(() => setEnded(true))
    const stopNews = onNews(({ kind, userId }) => {
      if (kind === 'logout' && userId === user.id) goToLogin()
      if (kind !== 'login') return
      // The pop-up has passed on its token; what is shown is loaded again, unless something on it is unsaved.
      void ask<User>('/auth/me').then(answer => {
        if (answer.status !== 200) return
        setEnded(false)
        if (!hasUnsaved()) setTurn(now => now + 1)
      })
    })
    return () => {
      stopEnd()
      stopNews()
    }
  }, [])
  return { isEnded, turn }
}

/** Follows the URL, and asks about unsaved changes first. `leave` runs what would lose them. */
const usePlace = (content: { readonly current: HTMLElement | null }) => {
  const [place, setPlace] = useState(placeOf(location.hash))
  const [moves, setMoves] = useState(0)
  const [leaving, setLeaving] = useState<(() => void) | undefined>()
  const leave = (go: () => void) => (hasUnsaved() ? setLeaving(() => go) : go())
  useEffect(() => {
    const move = ({ oldURL }: HashChangeEvent) => {
      const wanted = location.hash
      if (hasUnsaved()) {
        history.pushState(null, '', oldURL)
        return leave(() => {
          location.hash = wanted
        })
      }
      setPlace(placeOf(wanted))
      setMoves(now => now + 1)
      content.current?.focus({ preventScroll: true })
      window.scrollTo(0, 0)
    }
    window.addEventListener('hashchange', move)
    return () => window.removeEventListener('hashchange', move)
  }, [])
  const question =
    leaving === undefined
      ? undefined
      : html`<${Confirm} stay=${text('stay')} onClose=${() => setLeaving(undefined)} act=${{
          title: text('leaveTitle'),
          consequence: text('leaveWill'),
          label: text('leave'),
          run: () => {
            giveUpUnsaved()
            leaving()
          }
        }} />`
  return { place, moves, leave, question }
}

const App = ({ user }: { user: User }): VNode => {
  const [, setLanguage] = useState(currentLanguage())
  const { isEnded, turn } = useSession(user)
  const content = useRef<HTMLElement>(null)
  const { place, moves, leave, question } = usePlace(content)
  useEffect(() => {
    document.title = `${text(place.section satisfies ConsoleKey)} · ${text('console')} · ${brand()}`
  })
  const out = () => leave(() => void logOut(user).then(url => location.assign(url ?? '/auth/login')))
  return html`<${Top} user=${user} place=${place} onLanguage=${() => setLanguage(currentLanguage())} onLogout=${out} />
    <main id="content" ref=${content} tabindex="-1" key=${`${moves} ${turn}`}>${viewOf(place)}</main>
    ${question}
    ${isEnded && html`<${EndedDialog} />`}`
}

const start = async (root: HTMLElement) => {
  if (keptToken() === undefined) return goToLogin()
  const answer = await ask<User>('/auth/me')
  if (answer.status === 401) return goToLogin()
  if (answer.status !== 200) {
    return render(
      html`<div class="stage"><main class="card"><h1>${brand()}</h1><p role="alert">${text('unreachable')}</p>
      <button type="button" onClick=${() => location.reload()}>${text('retry')}</button></main></div>`,
      root
    )
  }
  render(answer.body.profiles.includes('Admin') ? html`<${App} user=${answer.body} />` : html`<${Refused} />`, root)
}

const root = document.getElementById('app')
if (root !== null) void start(root)
