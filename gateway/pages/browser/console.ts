// Runs the console: one section at a time, chosen by the URL, while the session lasts.
import { AreasView } from './areas-view.ts'
import { AuditView } from './audit-view.ts'
import { ClientsView } from './clients-view.ts'
import { sends } from './fields.ts'
import { GrantsView, HeldBackView, StreamsView } from './list-views.ts'
import { MatrixView } from './matrix-view.ts'
import { startPage, Top, useLeave } from './page.ts'
import { PeopleView } from './people-view.ts'
import { PersonView } from './person-view.ts'
import { html, useEffect, useRef, useState, type VNode } from './render.ts'
import { brand } from './session.ts'
import type { User } from './shapes.ts'
import { StatusView } from './status-view.ts'
import { TrafficView } from './traffic-view.ts'
import { giveUpUnsaved, hasUnsaved } from './unsaved.ts'
import { text } from './words-console.ts'

/** What each section shows, in the order of the navigation. */
const VIEWS = {
  people: PeopleView,
  areas: AreasView,
  grants: GrantsView,
  held: HeldBackView,
  clients: ClientsView,
  streams: StreamsView,
  access: MatrixView,
  traffic: TrafficView,
  status: StatusView,
  audit: AuditView
}
type Section = keyof typeof VIEWS
const SECTIONS = Object.keys(VIEWS) as Section[]

const placeOf = (hash: string) => {
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

const Refused =
  (): VNode => html`<div class="stage"><main class="card"><h1>${text('onlyAdmins')}</h1><p>${text('onlyAdminsNote')}</p>
  <a class="button main" href="/auth/account">${text('toAccount')}</a></main></div>`

/** Follows the URL, and asks about unsaved changes first. */
const usePlace = (content: { readonly current: HTMLElement | null }) => {
  const [place, setPlace] = useState(placeOf(location.hash))
  const [moves, setMoves] = useState(0)
  const { leave, question } = useLeave()
  useEffect(() => {
    const move = ({ oldURL }: HashChangeEvent) => {
      const wanted = location.hash
      if (hasUnsaved()) {
        history.pushState(null, '', oldURL)
        return leave(() => {
          giveUpUnsaved()
          location.hash = wanted
        })
      }
      setPlace(placeOf(wanted))
      setMoves(now => now + 1)
    }
    window.addEventListener('hashchange', move)
    return () => window.removeEventListener('hashchange', move)
  }, [])
  // Each move makes the content anew.
  useEffect(() => {
    if (moves === 0) return
    content.current?.focus({ preventScroll: true })
    window.scrollTo(0, 0)
  }, [moves])
  return { place, moves, question }
}

const App = ({ user }: { user: User }): VNode => {
  const content = useRef<HTMLElement>(null)
  const { place, moves, question } = usePlace(content)
  useEffect(() => {
    document.title = `${text(place.section)} · ${text('console')} · ${brand()}`
  })
  const View = VIEWS[place.section]
  const view = place.id === '' ? html`<${View} />` : html`<${PersonView} id=${place.id} />`
  return html`<a class="skip" href="#content" onClick=${sends(() => content.current?.focus())}>${text('skip')}</a>
    <${Top} user=${user} home="#/people"><${Sections} current=${place.section} /><//>
    <main id="content" ref=${content} tabindex="-1" key=${moves}>${view}</main>
    ${question}`
}

void startPage({
  view: user => (user.profiles.includes('Admin') ? html`<${App} user=${user} />` : html`<${Refused} />`)
})
