// Lists what groups are granted, which accounts and addresses failed logins hold back, and who is connected to what; Admins free and end.
import { useList } from './console-data.ts'
import { actions, actOf, type Column, Listing, listed, Missing, Name, useActs } from './console-parts.ts'
import { dateTime, number, providerName } from './language.ts'
import { html, type VNode } from './render.ts'
import type { GrantItem, HeldItem, InstanceStream } from './shapes.ts'
import { text } from './words-console.ts'

const groupCell = ({ group, provider, tenant }: GrantItem): VNode => html`<bdi>${group}</bdi>
  <small class="quiet"> ${providerName(provider)}${tenant !== '' && ` · ${text('tenant', { name: tenant })}`}</small>`

export const GrantsView = (): VNode => {
  const list = useList<GrantItem, { readonly peopleCutOff: number }>('grants')
  const { peopleCutOff = 0 } = list.data ?? {}
  const columns: Column<GrantItem>[] = [
    [text('group'), groupCell],
    [text('profiles'), ({ profiles }) => listed(profiles)],
    [text('areas'), ({ areas }) => html`<bdi>${listed(areas)}</bdi>`],
    [text('people'), ({ people }) => number(people)],
    [text('place'), ({ place }) => html`<code>${place}</code>`]
  ]
  return html`<h1>${text('grants')}</h1><p class="quiet">${text('grantsNote')}</p>
    ${peopleCutOff > 0 && html`<p class="notice" data-error="true">${text('cutOffCount', { n: number(peopleCutOff) })}</p>`}
    <${Listing} of=${list} empty=${text('noGrants')} label=${text('grants')} columns=${columns} keyOf=${({ place }: GrantItem) => place} />`
}

const HELD_EVERY_MS = 10_000

const whatCell = ({ kind, name, userId, provider }: HeldItem): VNode => {
  const key = kind === 'account' ? 'heldAccount' : provider === 'client' ? 'heldForClients' : 'heldAddress'
  const who =
    userId === null ? html`<code>${name}</code>` : html`<a href=${`#/people/${userId}`}><${Name} of=${name} /></a>`
  return html`${who} <small class="quiet">${text(key)}</small>`
}

export const HeldBackView = (): VNode => {
  const list = useList<HeldItem>('held-back', 50, HELD_EVERY_MS)
  const { change, notices } = useActs(list.reload)
  const free = ({ name, userId }: HeldItem) => {
    const done = text('freedDone', { name: name.slice(0, 80) })
    return userId === null
      ? change('held-back/unlock', 'POST', done, { address: name })
      : change(`users/${userId}/unlock`, 'POST', done)
  }
  const columns: Column<HeldItem>[] = [
    [text('name'), whatCell],
    [text('failures'), ({ failures }) => number(failures)],
    [text('heldUntil'), ({ until }) => (until === null ? text('untilLogin') : dateTime(until))],
    actions(held => [[text('free'), text('freeName', { name: held.name.slice(0, 80) }), () => free(held)]])
  ]
  const keyOf = ({ kind, name, provider }: HeldItem) => `${kind} ${name} ${provider}`
  return html`<h1>${text('held')}</h1><p class="quiet">${text('heldNote')}</p>${notices}
    <${Listing} of=${list} empty=${text('noneHeld')} label=${text('held')} columns=${columns} keyOf=${keyOf} />`
}

const STREAMS_EVERY_MS = 5000

const whoOf = ({ user }: InstanceStream): string => user?.username ?? text('notIdentified')

const pageOf = ({ id, provider }: NonNullable<InstanceStream['user']>): string =>
  provider === 'client' ? '#/clients' : `#/people/${id}`

export const StreamsView = (): VNode => {
  const list = useList<InstanceStream, { readonly missing: readonly string[] }>('sockets', 50, STREAMS_EVERY_MS)
  const { ask, change, notices } = useActs(list.reload)

  const end = (stream: InstanceStream) => {
    const run = () => change(`sockets/${encodeURIComponent(stream.id)}`, 'DELETE', text('endedDone'))
    ask(actOf(text, 'end', { name: whoOf(stream).slice(0, 80), path: stream.route }, run))
  }
  const columns: Column<InstanceStream>[] = [
    [
      text('who'),
      stream => (stream.user ? html`<a href=${pageOf(stream.user)}><${Name} of=${whoOf(stream)} /></a>` : whoOf(stream))
    ],
    [
      text('what'),
      ({ route, kind, namespace }) =>
        html`<code>${route}</code> <small class="quiet">${kind}${namespace && ` ${namespace}`}</small>`
    ],
    [text('since'), ({ since }) => dateTime(since)],
    [text('address'), ({ ip }) => ip],
    [text('instance'), ({ instance }) => instance],
    actions(stream => [
      [text('end'), text('endStream', { name: whoOf(stream), path: stream.route }), () => end(stream)]
    ])
  ]
  return html`<h1>${text('streams')}</h1>${notices}<${Missing} from=${list.data?.missing} />
    <${Listing} of=${list} label=${text('streams')} columns=${columns} keyOf=${({ id }: InstanceStream) => id} />`
}
