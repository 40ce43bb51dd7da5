// Lets Admins create or change a service account: its name, access, expiry and addresses.
import { AreaChoice, type ChosenAreas, type Named } from './area-choice.ts'
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import { type Outcome, OutcomeLine } from './console-parts.ts'
import { html, useState, type VNode } from './render.ts'
import type { Answer } from './session.ts'
import { useUnsaved } from './unsaved.ts'
import { text } from './words-clients.ts'

/** A secret that the gateway has just created, and will not show again. */
export interface MadeSecret {
  readonly name: string
  readonly clientId: string
  readonly clientSecret: string
}

export interface Client {
  readonly id: number
  readonly clientId: string
  readonly name: string
  readonly profiles: readonly string[]
  readonly areas: readonly string[]
  readonly areaPrincipal: string
  readonly expiresAt: string
  readonly addresses: readonly string[]
  readonly lastUsedAt: string
}

/** In the format of a date field. */
const today = (): string => new Date().toLocaleDateString('sv')

const wishOf = (data: FormData, { areas, main }: ChosenAreas) => {
  const expires = String(data.get('expires'))
  return {
    name: String(data.get('name')).trim(),
    profiles: data.getAll('profile').map(String),
    areas,
    areaPrincipal: main === '' ? null : main,
    // The end of the selected day.
    expiresAt: expires === '' ? null : new Date(`${expires}T23:59:59`).toISOString(),
    addresses: [...new Set(String(data.get('addresses')).split(/[\s,;]+/))].filter(address => address !== '')
  }
}

const fieldsOf = (client: Client | undefined): ChosenAreas & { readonly expires: string } => {
  if (client === undefined) return { areas: [], main: '', expires: '' }
  const { areas, areaPrincipal, expiresAt } = client
  return { areas, main: areaPrincipal, expires: expiresAt === '' ? '' : new Date(expiresAt).toLocaleDateString('sv') }
}

/** Which field was rejected; worded here, because the gateway's own messages are in English. */
const problemWords = (answer: Answer<unknown>): string => {
  if (answer.code === 'GW_CONFLICT') return text('nameTaken')
  const { message } = answer.body as { message?: unknown }
  if (answer.code !== 'GW_BAD_REQUEST' || typeof message !== 'string') return problemOf(answer)
  if (message.includes('addresses')) return text('badAddress')
  return message.includes('expiresAt') ? text('badExpiry') : problemOf(answer)
}

interface Props {
  /** The service account to change; undefined: a new one is created. */
  readonly client?: Client
  readonly onMade?: (made: MadeSecret) => void
  readonly onSaved?: () => void
  readonly onClose?: () => void
}

export const ClientForm = ({ client, onMade, onSaved, onClose }: Props): VNode => {
  const allProfiles = useLoad<ListOf<Named>>('profiles').data?.items ?? []
  const first = fieldsOf(client)
  const [chosen, setChosen] = useState<ChosenAreas>(first)
  const [isTouched, setTouched] = useState(false)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [isBusy, setBusy] = useState(false)
  const fail = (words: string) => setOutcome({ words, isError: true })
  const touch = () => setTouched(true)
  useUnsaved(isTouched)

  const save = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    setBusy(true)
    const { expiresAt, ...wish } = wishOf(new FormData(form), chosen)
    // An unchanged day keeps its time of day.
    const isKept = client !== undefined && first.expires === expiresOf(form)
    const body = isKept ? wish : { ...wish, expiresAt }
    const answer =
      client === undefined
        ? await admin<MadeSecret>('clients', { method: 'POST', body })
        : await admin<MadeSecret>(`clients/${client.id}`, { method: 'PATCH', body })
    setBusy(false)
    if (answer.status !== 201 && answer.status !== 200) return fail(problemWords(answer))
    setOutcome(undefined)
    setTouched(false)
    if (client !== undefined) return onSaved?.()
    setChosen({ areas: [], main: '' })
    form.reset()
    onMade?.(answer.body)
  }
  const id = (name: string) => (client === undefined ? `client-${name}` : `edit-${name}`)
  return html`<form id=${client === undefined ? 'new-client' : 'edit-client'} class=${client === undefined ? 'client panel' : 'client'} onSubmit=${save} onInput=${touch} aria-busy=${isBusy}>${client === undefined && html`<h2>${text('newClient')}</h2>`}
    <p><label for=${id('name')}>${text('name')}</label><input id=${id('name')} name="name" required maxlength="64" autocomplete="off" dir="auto" defaultValue=${client?.name} /></p>
    <fieldset><legend>${text('profiles')}</legend><div class="checks">${allProfiles.map(
      ({ name }) =>
        html`<label key=${name}><input type="checkbox" name="profile" value=${name} defaultChecked=${client?.profiles.includes(name) === true} />${name}</label>`
    )}</div></fieldset>
    <${AreaChoice} place=${client === undefined ? '' : 'edit-'} chosen=${chosen} onProblem=${fail} onChange=${(
      next: ChosenAreas
    ) => {
      touch()
      setChosen(next)
    }} />
    <p><label for=${id('expires')}>${text('expiresHint')}</label><input id=${id('expires')} name="expires" type="date" min=${client === undefined ? today() : undefined} max="9999-12-31" defaultValue=${first.expires} /></p>
    <p><label for=${id('addresses')}>${text('addressesHint')}</label>
      <input id=${id('addresses')} name="addresses" autocomplete="off" spellcheck="false" placeholder="203.0.113.0/24, 2001:db8::/32" defaultValue=${client?.addresses.join(', ')} /></p>
    ${client !== undefined && html`<p class="quiet">${text('editNote')}</p>`}
    <${OutcomeLine} outcome=${outcome} />
    <div class="buttons"><button class="main" disabled=${isBusy}>${text(client === undefined ? 'create' : 'save')}</button>
      ${client !== undefined && html`<button type="button" onClick=${onClose}>${text('cancel')}</button>`}</div></form>`
}

const expiresOf = (form: HTMLFormElement): string => String(new FormData(form).get('expires'))
