// Lets Admins create or change a service account: its name, access, expiry and addresses.
import { AccessChoice, accessBody, type ChosenAccess, sameNames } from './access-choice.ts'
import { call, problemOf } from './console-data.ts'
import { useActs } from './console-parts.ts'
import { Field, sends } from './fields.ts'
import { html, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import type { ClientItem, ClientWithSecret } from './shapes.ts'
import { dayOf, endOfDay } from './times.ts'
import { useUnsaved } from './unsaved.ts'
import { text } from './words-console.ts'

const NO_ACCESS: ChosenAccess = { profiles: [], areas: [], areaPrincipal: '' }

/** @param firstDay the day on which it expires now; an unchanged day keeps its time of day */
const wishOf = (form: HTMLFormElement, chosen: ChosenAccess, firstDay: string | undefined) => {
  const data = new FormData(form)
  const day = String(data.get('expires'))
  return {
    name: String(data.get('name')).trim(),
    ...accessBody(chosen),
    ...(day === firstDay ? {} : { expiresAt: day === '' ? null : endOfDay(day) }),
    addresses: [...new Set(String(data.get('addresses')).split(/[\s,;]+/))].filter(address => address !== '')
  }
}

/** Only what was changed here, so that nothing comes back that another Admin has taken from the account meanwhile. */
const changesOf = (wish: ReturnType<typeof wishOf>, client: ClientItem) => {
  const { name, profiles, areas, areaPrincipal, addresses, ...expiry } = wish
  const isSameMain = (areaPrincipal ?? '') === client.areaPrincipal
  return {
    ...expiry,
    ...(name !== client.name && { name }),
    ...(!sameNames(profiles, client.profiles) && { profiles }),
    ...((!isSameMain || !sameNames(areas, client.areas)) && { areas, areaPrincipal }),
    ...(!sameNames(addresses, client.addresses) && { addresses })
  }
}

/** Which field was rejected; worded here, because the gateway's own messages are in English. */
const problemWords = (answer: Answer<unknown>): string => {
  const { message } = answer.body as { message?: unknown }
  if (answer.code !== 'GW_BAD_REQUEST' || typeof message !== 'string') return problemOf(answer, text('nameTaken'))
  if (message.includes('addresses/')) return text('badAddress')
  return message.includes('expiresAt') ? text('badExpiry') : problemOf(answer)
}

interface Props {
  /** The service account to change; undefined: a new one is created. */
  readonly client?: ClientItem
  readonly onMade?: (made: ClientWithSecret) => void
  readonly onSaved?: () => void
  readonly onClose?: () => void
}

export const ClientForm = ({ client, onMade, onSaved, onClose }: Props): VNode => {
  const firstDay = client === undefined || client.expiresAt === '' ? '' : dayOf(new Date(client.expiresAt))
  const [chosen, setChosen] = useState<ChosenAccess>(client ?? NO_ACCESS)
  const [isTouched, setTouched] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const { say, notices } = useActs()
  const touch = () => setTouched(true)
  useUnsaved(isTouched)

  const save = async (form: HTMLFormElement) => {
    const wish = wishOf(form, chosen, client === undefined ? undefined : firstDay)
    const body = client === undefined ? wish : changesOf(wish, client)
    if (Object.keys(body).length === 0) return onClose?.()
    setBusy(true)
    const [path, method] = client === undefined ? ['clients', 'POST'] : [`clients/${client.id}`, 'PATCH']
    const answer = await call<ClientWithSecret>(path, { method, body })
    setBusy(false)
    if (answer.status !== 201 && answer.status !== 200) return say(problemWords(answer), true)
    say('')
    setTouched(false)
    if (client !== undefined) return onSaved?.()
    setChosen(NO_ACCESS)
    form.reset()
    onMade?.(answer.body)
  }
  const choose = (next: ChosenAccess) => {
    touch()
    setChosen(next)
  }
  const isNew = client === undefined
  const id = (name: string) => `${isNew ? 'client' : 'edit'}-${name}`
  return html`<form id=${isNew ? 'new-client' : 'edit-client'} class=${isNew ? 'client panel' : 'client'} onSubmit=${sends(save)} onInput=${touch} aria-busy=${isBusy}>${isNew && html`<h2>${text('newClient')}</h2>`}
    <${Field} id=${id('name')} label=${text('name')} name="name" required maxlength="64" dir="auto" defaultValue=${client?.name} />
    <${AccessChoice} prefix=${isNew ? '' : 'edit-'} assigned=${client?.profiles ?? []} chosen=${chosen} onProblem=${(words: string) => say(words, true)} onChange=${choose} />
    <${Field} id=${id('expires')} label=${text('expiresHint')} name="expires" type="date" min=${isNew ? dayOf(new Date()) : undefined} max="9999-12-31" defaultValue=${firstDay} />
    <${Field} id=${id('addresses')} label=${text('addressesHint')} name="addresses" spellcheck="false" placeholder="203.0.113.0/24, 2001:db8::/32" defaultValue=${client?.addresses.join(', ')} />
    ${!isNew && html`<p class="quiet">${text('editNote')}</p>`}
    ${notices}
    <div class="buttons"><button class="main" disabled=${isBusy}>${text(isNew ? 'createClient' : 'saveClient')}</button>
      ${!isNew && html`<button type="button" onClick=${onClose}>${text('cancel')}</button>`}</div></form>`
}
