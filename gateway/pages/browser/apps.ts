// Renders the applications that the person may open, as tiles.
import { useLoad } from './console-data.ts'
import { Waiting } from './console-parts.ts'
import { SmallPage, startPage } from './page.ts'
import { html, useState, type VNode } from './render.ts'
import type { AppItem, User } from './shapes.ts'
import { text } from './words-pages.ts'

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
  return html`<${Waiting} loaded=${loaded} />
    ${items?.length === 0 && html`<p>${text(user.accessStatus === 'assigned' ? 'noApps' : 'waiting')}</p>`}
    ${items !== undefined && items.length > 0 && html`<ul class="tiles">${items.map(app => html`<${Tile} key=${`${app.url} ${app.name}`} app=${app} />`)}</ul>`}`
}

const view = (user: User): VNode => html`<${SmallPage} user=${user} current="apps"><${Tiles} user=${user} /><//>`

void startPage({ view, takesCookie: true })
