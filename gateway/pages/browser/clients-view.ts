// Lets Admins list, create, rotate and remove service accounts.
import { ClientForm } from './client-form.ts'
import { useList } from './console-data.ts'
import {
  actions,
  actOf,
  type Column,
  Dialog,
  Listing,
  listed,
  Name,
  Secret,
  State,
  timeOrNever,
  useActs
} from './console-parts.ts'
import { Field } from './fields.ts'
import { html, useState, type VNode } from './render.ts'
import type { ClientItem, ClientWithSecret } from './shapes.ts'
import { text } from './words-console.ts'

const areasOf = ({ areas, areaPrincipal }: ClientItem): string =>
  listed(areas.map(area => (area === areaPrincipal ? text('isMainArea', { name: area }) : area)))

/** A date that is '' is none, and so not over. */
const expiryCell = ({ expiresAt }: ClientItem) =>
  html`${timeOrNever(expiresAt)}${Date.parse(expiresAt) <= Date.now() && html` <${State} is="warn">${text('expired')}<//>`}`

export const ClientsView = (): VNode => {
  const list = useList<ClientItem>('clients')
  const [made, setMade] = useState<readonly ClientWithSecret[]>([])
  const { ask, say, change, notices } = useActs(list.reload)
  const [edited, setEdited] = useState<ClientItem | undefined>()

  /** Above those that are still shown, because none is shown again. */
  const show = (secret: ClientWithSecret) => setMade(shown => [secret, ...shown])
  const rotate = async ({ id }: ClientItem) => {
    const secret = await change<ClientWithSecret>(`clients/${id}/rotate`, 'POST', '')
    if (secret !== undefined) show(secret)
  }
  const remove = async ({ id, clientId }: ClientItem) => {
    if (await change(`clients/${id}`, 'DELETE', text('clientRemoved')))
      setMade(shown => shown.filter(secret => secret.clientId !== clientId))
  }
  const asks = (action: 'rotate' | 'remove', client: ClientItem, run: (client: ClientItem) => Promise<void>) => () =>
    ask(actOf(text, action, { name: client.name }, () => run(client)))
  const columns: Column<ClientItem>[] = [
    [text('name'), ({ name }) => html`<${Name} of=${name} />`],
    [text('clientId'), ({ clientId }) => html`<code>${clientId}</code>`],
    [text('profiles'), ({ profiles }) => listed(profiles)],
    [text('areas'), client => html`<bdi>${areasOf(client)}</bdi>`],
    [text('expires'), expiryCell],
    [text('addresses'), ({ addresses }) => addresses.join(', ') || text('anywhere')],
    [text('lastUsed'), ({ lastUsedAt }) => timeOrNever(lastUsedAt)],
    actions(client => [
      [text('edit'), text('editClient', { name: client.name }), () => setEdited(client)],
      [text('rotate'), text('rotateClient', { name: client.name }), asks('rotate', client, rotate)],
      [text('remove'), text('removeClient', { name: client.name }), asks('remove', client, remove)]
    ])
  ]
  const close = () => setEdited(undefined)
  const settle = (words: string, secret?: ClientWithSecret) => {
    close()
    say(words)
    if (secret !== undefined) show(secret)
    list.reload()
  }
  return html`<h1>${text('clients')}</h1><p class="quiet">${text('clientsNote')}</p>
    ${notices}
    ${made.map(
      (secret, i) =>
        html`<${Secret} key=${secret.clientSecret} title=${text('secretOf', { name: secret.name })} value=${secret.clientSecret} note=${text('once')} onHide=${() => setMade(shown => shown.filter(other => other !== secret))}>
        <${Field} id=${`secret-client-id-${i}`} label=${text('clientId')} readonly value=${secret.clientId} /><//>`
    )}
    <${Listing} of=${list} label=${text('clients')} columns=${columns} keyOf=${({ id }: ClientItem) => id} />
    ${
      edited !== undefined &&
      html`<${Dialog} title=${text('editTitle', { name: edited.name })} onClose=${close}>
        <${ClientForm} client=${edited} onClose=${close} onSaved=${() => settle(text('clientChanged'))} /><//>`
    }
    <${ClientForm} onMade=${(secret: ClientWithSecret) => settle('', secret)} />`
}
