// Lets Admins list, create, rotate and remove service accounts.
import { ClientForm } from './client-form.ts'
import { admin, useList } from './console-data.ts'
import {
  actOf,
  type Button,
  Buttons,
  type Column,
  Dialog,
  Listing,
  Name,
  Secret,
  State,
  useActs
} from './console-parts.ts'
import { Field } from './fields.ts'
import { dateTime } from './language.ts'
import { html, useState, type VNode } from './render.ts'
import type { ClientItem, ClientWithSecret } from './shapes.ts'
import { text } from './words-console.ts'

const areasOf = ({ areas, areaPrincipal }: ClientItem): string =>
  areas.map(area => (area === areaPrincipal ? text('isMainArea', { name: area }) : area)).join(', ') || '–'

const expiryCell = ({ expiresAt }: ClientItem) => {
  if (expiresAt === '') return text('never')
  const isExpired = Date.parse(expiresAt) <= Date.now()
  return html`${dateTime(expiresAt)}${isExpired && html` <${State} is="warn">${text('expired')}<//>`}`
}

export const ClientsView = (): VNode => {
  const list = useList<ClientItem>('clients')
  const [made, setMade] = useState<ClientWithSecret | undefined>()
  const { ask, say, settle, notices } = useActs()
  const [edited, setEdited] = useState<ClientItem | undefined>()

  const show = (secret: ClientWithSecret) => {
    say('')
    setMade(secret)
    list.reload()
  }
  const rotate = async ({ id }: ClientItem) => {
    const answer = await admin<ClientWithSecret>(`clients/${id}/rotate`, { method: 'POST' })
    if (settle(answer, '')) show(answer.body)
  }
  const remove = async ({ id, clientId }: ClientItem) => {
    const isDone = settle(await admin(`clients/${id}`, { method: 'DELETE' }), text('clientRemoved'))
    if (isDone) setMade(secret => (secret?.clientId === clientId ? undefined : secret))
    list.reload()
  }
  const asks = (action: 'rotate' | 'remove', client: ClientItem, run: (client: ClientItem) => Promise<void>) => () =>
    ask(actOf(text, action, { name: client.name }, () => run(client)))
  const buttons = (client: ClientItem): Button[] => {
    const { name } = client
    return [
      [text('edit'), text('editClient', { name }), () => setEdited(client)],
      [text('rotate'), text('rotateClient', { name }), asks('rotate', client, rotate)],
      [text('remove'), text('removeClient', { name }), asks('remove', client, remove)]
    ]
  }
  const columns: Column<ClientItem>[] = [
    [text('name'), ({ name }) => html`<${Name} of=${name} />`],
    [text('clientId'), ({ clientId }) => html`<code>${clientId}</code>`],
    [text('profiles'), ({ profiles }) => profiles.join(', ') || '–'],
    [text('areas'), client => html`<bdi>${areasOf(client)}</bdi>`],
    [text('expires'), expiryCell],
    [text('addresses'), ({ addresses }) => addresses.join(', ') || text('anywhere')],
    [text('lastUsed'), ({ lastUsedAt }) => (lastUsedAt === '' ? text('never') : dateTime(lastUsedAt))],
    [text('actions'), client => html`<${Buttons} of=${buttons(client)} />`]
  ]
  const close = () => setEdited(undefined)
  const saved = () => {
    close()
    say(text('clientChanged'))
    list.reload()
  }
  return html`<h1>${text('clients')}</h1><p class="quiet">${text('clientsNote')}</p>
    ${notices}
    ${
      made !== undefined &&
      html`<${Secret} key=${made.clientSecret} title=${text('secretOf', { name: made.name })} value=${made.clientSecret} note=${text('once')} onHide=${() => setMade(undefined)}>
        <${Field} id="secret-client-id" label=${text('clientId')} readonly value=${made.clientId} /><//>`
    }
    <${Listing} of=${list} label=${text('clients')} columns=${columns} keyOf=${({ id }: ClientItem) => id} />
    ${
      edited !== undefined &&
      html`<${Dialog} title=${text('editTitle', { name: edited.name.slice(0, 80) })} onClose=${close}>
        <${ClientForm} client=${edited} onClose=${close} onSaved=${saved} /><//>`
    }
    <${ClientForm} onMade=${show} />`
}
