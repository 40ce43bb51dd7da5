// Runs the console: one section at a time, chosen by the URL, while the session lasts.
import { AreasView } from './areas-view.ts'
import { AuditView } from './audit-view.ts'
import { Confirm } from './console-parts.ts'
import { currentLanguage } from './language.ts'
import { MatrixView } from './matrix-view.ts'
import { startPage, Top } from './page.ts'
import { leaveSession } from './page-session.ts'
import { PeopleView } from './people-view.ts'
import { PersonView } from './person-view.ts'
import { html, useEffect, useRef, useState, type VNode } from './render.ts'
import { brand, type User } from './session.ts'
import { StatusView } from './status-view.ts'
import { StreamsView } from './streams-view.ts'
import { giveUpUnsaved, hasUnsaved } from './unsaved.ts'
import { text } from './words-console.ts'

/** A section that is loaded when it is first opened. */
const late = (load: () => Promise<() => VNode>) => (): VNode => {
  const [View, setView] = useState<(() => VNode) | undefined>()
  useEffect(() => void load().then(view => setView(() => view)), [])
  return View === undefined ? html`<p class="quiet" role="status">${text('loading')}</p>` : html`<${View} />`
}

/** What each section shows, in the order of the navigation. */
const VIEWS = {
  people: PeopleView,
  areas: AreasView,
  grants: late(() => import('./grants-view.ts').then(({ GrantsView }) => GrantsView)),
  held: late(() => import('./held-back-view.ts').then(({ HeldBackView }) => HeldBackView)),
  clients: late(() => import('./clients-view.ts').then(({ ClientsView }) => ClientsView)),
  streams: StreamsView,
  access: MatrixView,
  traffic: late(() => import('./traffic-view.ts').then(({ TrafficView }) => TrafficView)),
  status: StatusView,
  audit: AuditView
}
type Section = keyof typeof VIEWS
const SECTIONS = Object.keys(VIEWS) as Section[]

interface Place {
  readonly section: Section
  readonly id: string
}

const placeOf = (hash: string): Place => {
  const [, name = '', id = ''] = hash.replace(/^#|\?.*$/g, '').split('/')
  const section = SECTIONS.find(known => known === name) ?? 'people'
  return { section, id: section === 'people' && /^[1-9]\d{0,9}$/.test(id) ? id : '' }
}

const Sections = ({ current }: { current: Section }): VNode => {
  const sections = useRef<HTMLElement>(null)
  // On a narrow screen the sections are a scrolling strip.
  useEffect(() => {
    sections.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  })
  return html`<nav aria-label=${text('sections')} ref=${sections}>${SECTIONS.map(
    section =>
      html`<a key=${section} href=${`#/${section}`} aria-current=${section === current ? 'page' : undefined}>${text(section)}</a>`
  )}</nav>`
}

const focusContent = (event: Event) => {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

const Refused =
  (): VNode => html`<div class="stage"><main class="card"><h1>${text('onlyAdmins')}</h1><p>${text('onlyAdminsNote')}</p>
  <a class="button main" href="/auth/account">${text('toAccount')}</a></main></div>`

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

const App = ({ user, turn }: { user: User; turn: number }): VNode => {
  const [, setLanguage] = useState(currentLanguage())
  const content = useRef<HTMLElement>(null)
  const { place, moves, leave, question } = usePlace(content)
  useEffect(() => {
    document.title = `${text(place.section)} · ${text('console')} · ${brand()}`
  })
  const out = () => leave(() => void leaveSession(user))
  const View = VIEWS[place.section]
  const view = place.id === '' ? html`<${View} />` : html`<${PersonView} id=${place.id} />`
  return html`<a class="skip" href="#content" onClick=${focusContent}>${text('skip')}</a>
    <${Top} user=${user} home="#/people" onLanguage=${() => setLanguage(currentLanguage())} onLogout=${out}><${Sections} current=${place.section} /><//>
    <main id="content" ref=${content} tabindex="-1" key=${`${moves} ${turn}`}>${view}</main>
    ${question}`
}

void startPage({
  view: (user, turn) =>
    user.profiles.includes('Admin') ? html`<${App} user=${user} turn=${turn} />` : html`<${Refused} />`
})
