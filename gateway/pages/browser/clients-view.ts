// Lets Admins list, create, rotate and remove service accounts.
import { type Client, ClientForm, type MadeSecret } from './client-form.ts'
import { admin, useList } from './console-data.ts'
import { Dialog, Listing, Name, State, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { html, useEffect, useRef, useState, type VNode } from './render.ts'
import { text } from './words-clients.ts'

/** Focused when it appears, and selected on focus, so that it can be copied with the keyboard too. */
const Secret = ({ made, onHide }: { made: MadeSecret; onHide: () => void }): VNode => {
  const field = useRef<HTMLInputElement>(null)
  const [copying, setCopying] = useState<'copied' | 'notCopied' | ''>('')
  useEffect(() => field.current?.focus(), [])
  const copy = () =>
    navigator.clipboard.writeText(made.clientSecret).then(
      () => setCopying('copied'),
      () => setCopying('notCopied')
    )
  return html`<section class="panel" id="made-secret" aria-labelledby="made-secret-title">
    <h2 id="made-secret-title" class="long">${text('secretOf', { name: made.name })}</h2><p id="made-secret-note">${text('once')}</p>
    <p><label for="secret-client-id">${text('clientId')}</label><input id="secret-client-id" readonly value=${made.clientId} /></p>
    <p><label for="secret-value">${text('secretOf', { name: made.name })}</label>
      <input ref=${field} id="secret-value" readonly autocomplete="off" spellcheck="false" aria-describedby="made-secret-note" value=${made.clientSecret}
        onFocus=${(event: FocusEvent) => (event.target as HTMLInputElement).select()} /></p>
    <div class="buttons"><button type="button" class="main" id="copy-secret" onClick=${copy}>${text('copy')}</button>
      <button type="button" id="hide-secret" onClick=${onHide}>${text('hide')}</button><span role="status">${copying !== '' && text(copying)}</span></div></section>`
}

const none = '–'

interface RowProps {
  readonly client: Client
  readonly onEdit: (client: Client) => void
  readonly onRotate: (client: Client) => void
  readonly onRemove: (client: Client) => void
}

const ClientRow = ({ client, onEdit, onRotate, onRemove }: RowProps): VNode => {
  const { name, clientId, profiles, areas, areaPrincipal, expiresAt, addresses, lastUsedAt } = client
  const isExpired = expiresAt !== '' && Date.parse(expiresAt) <= Date.now()
  const areaNames = areas.map(area => (area === areaPrincipal ? text('mainArea', { name: area }) : area))
  return html`<tr><th scope="row" data-label=${text('name')}><${Name} of=${name} /></th>
    <td data-label=${text('clientId')}><code>${clientId}</code></td>
    <td data-label=${text('profiles')}>${profiles.join(', ') || none}</td>
    <td data-label=${text('areas')}><bdi>${areaNames.join(', ') || none}</bdi></td>
    <td data-label=${text('expires')}>${expiresAt === '' ? text('never') : dateTime(expiresAt)}${isExpired && html` <${State} is="warn">${text('expired')}<//>`}</td>
    <td data-label=${text('addresses')}>${addresses.join(', ') || text('anywhere')}</td>
    <td data-label=${text('lastUsed')}>${lastUsedAt === '' ? text('never') : dateTime(lastUsedAt)}</td>
    <td data-label=${text('actions')}><div class="buttons">
      <button type="button" aria-label=${text('editClient', { name })} onClick=${() => onEdit(client)}>${text('edit')}</button>
      <button type="button" aria-label=${text('rotateClient', { name })} onClick=${() => onRotate(client)}>${text('rotate')}</button>
      <button type="button" aria-label=${text('removeClient', { name })} onClick=${() => onRemove(client)}>${text('remove')}</button></div></td></tr>`
}

const heads = () => [
  text('name'),
  text('clientId'),
  text('profiles'),
  text('areas'),
  text('expires'),
  text('addresses'),
  text('lastUsed'),
  text('actions')
]

export const ClientsView = (): VNode => {
  const list = useList<Client>('clients')
  const [made, setMade] = useState<MadeSecret | undefined>()
  const { ask, say, settle, notices } = useActs()
  const [edited, setEdited] = useState<Client | undefined>()

  const show = (secret: MadeSecret) => {
    say('')
    setMade(secret)
    list.reload()
  }
  const rotate = async ({ id }: Client) => {
    const answer = await admin<MadeSecret>(`clients/${id}/rotate`, { method: 'POST' })
    if (settle(answer, '')) show(answer.body)
  }
  const remove = async ({ id, clientId }: Client) => {
    const isDone = settle(await admin(`clients/${id}`, { method: 'DELETE' }), text('removed'))
    if (isDone) setMade(secret => (secret?.clientId === clientId ? undefined : secret))
    list.reload()
  }
  const asks = (action: 'rotate' | 'remove', run: (client: Client) => Promise<void>) => (client: Client) =>
    ask({
      title: text(`${action}Ask`, { name: client.name }),
      consequence: text(`${action}Will`),
      label: text(action),
      run: () => void run(client)
    })
  const row = (client: Client) =>
    html`<${ClientRow} key=${client.id} client=${client} onEdit=${setEdited} onRotate=${asks('rotate', rotate)} onRemove=${asks('remove', remove)} />`
  return html`<h1>${text('clients')}</h1><p class="quiet">${text('note')}</p>
    ${notices}
    ${made !== undefined && html`<${Secret} key=${made.clientSecret} made=${made} onHide=${() => setMade(undefined)} />`}
    <${Listing} of=${list} label=${text('clients')} heads=${heads()} row=${row} />
    ${
      edited !== undefined &&
      html`<${Dialog} title=${text('editTitle', { name: edited.name.slice(0, 80) })} onClose=${() => setEdited(undefined)}>
        <${ClientForm} client=${edited} onClose=${() => setEdited(undefined)} onSaved=${() => {
          setEdited(undefined)
          say(text('changed'))
          list.reload()
        }} /><//>`
    }
    <${ClientForm} onMade=${show} />`
}
