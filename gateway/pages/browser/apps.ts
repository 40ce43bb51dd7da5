// Renders the applications that the person may open, as tiles.
import { useLoad } from './console-data.ts'
import { Waiting } from './console-parts.ts'
import { Pages, startPage, Top } from './page.ts'
import { leaveSession } from './page-session.ts'
import { html, useEffect, useState, type VNode } from './render.ts'
import { brand, type User } from './session.ts'
import { text } from './words-console.ts'

interface AppItem {
  readonly name: string
  readonly description: string
  readonly icon: string
  readonly url: string
}

/** A picture that is missing, or that the person may not see, is replaced by the first letter of the name. */
const Icon = ({ app }: { app: AppItem }): VNode => {
  const [isBroken, setBroken] = useState(false)
  const [letter = ''] = app.name.trim()
  return app.icon === '' || isBroken
    ? html`<span class="letter" aria-hidden="true">${letter.toUpperCase()}</span>`
    : html`<img src=${app.icon} alt="" width="40" height="40" onError=${() => setBroken(true)} />`
}

const Tile = ({ app }: { app: AppItem }): VNode => html`<li><a href=${app.url}><${Icon} app=${app} />
  <span><bdi>${app.name}</bdi>${app.description !== '' && html`<span class="about quiet">${app.description}</span>`}</span></a></li>`

const Tiles = ({ user }: { user: User }): VNode => {
  const loaded = useLoad<{ readonly items: readonly AppItem[] }>('/auth/apps')
  const items = loaded.data?.items
  return html`<h1>${text('apps')}</h1><${Waiting} loaded=${loaded} />
    ${items?.length === 0 && html`<p>${text(user.accessStatus === 'assigned' ? 'noApps' : 'waiting')}</p>`}
    ${items !== undefined && items.length > 0 && html`<ul class="tiles">${items.map(app => html`<${Tile} key=${`${app.url} ${app.name}`} app=${app} />`)}</ul>`}`
}

const App = ({ user, turn }: { user: User; turn: number }): VNode => {
  const [, redraw] = useState(0)
  useEffect(() => {
    document.title = `${text('apps')} · ${brand()}`
  })
  return html`<${Top} user=${user} onLanguage=${() => redraw(now => now + 1)} onLogout=${() => void leaveSession(user)}><${Pages} user=${user} current="apps" /><//>
    <main id="content" key=${turn}><${Tiles} user=${user} /></main>`
}

void startPage({ view: (user, turn) => html`<${App} user=${user} turn=${turn} />`, takesCookie: true })
