// Admins make a service account: its name, access, expiry and the addresses that it may come from.
import { AreaChoice, type ChosenAreas, type Named } from './area-choice.ts'
import { admin, type ListOf, problemOf, useLoad } from './console-data.ts'
import { type Outcome, OutcomeLine } from './console-parts.ts'
import { html, useState, type VNode } from './render.ts'
import { text as ownText } from './words-clients.ts'
import { text } from './words-console.ts'

/** A secret that the gateway has just made, and will not give again. */
export interface MadeSecret {
  readonly name: string
  readonly clientId: string
  readonly clientSecret: string
}

/** As a date field writes it. */
const today = (): string => new Date().toLocaleDateString('sv')

const wishOf = (data: FormData, { areas, main }: ChosenAreas) => {
  const expires = String(data.get('expires'))
  return {
    name: String(data.get('name')).trim(),
    profiles: data.getAll('profile').map(String),
    areas,
    areaPrincipal: main === '' ? null : main,
    // The whole of the day that was chosen.
    expiresAt: expires === '' ? null : new Date(`${expires}T23:59:59`).toISOString(),
    addresses: [...new Set(String(data.get('addresses')).split(/[\s,;]+/))].filter(address => address !== '')
  }
}

export const ClientForm = ({ onMade }: { onMade: (made: MadeSecret) => void }): VNode => {
  const allProfiles = useLoad<ListOf<Named>>('profiles').data?.items ?? []
  const [chosen, setChosen] = useState<ChosenAreas>({ areas: [], main: '' })
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [isBusy, setBusy] = useState(false)
  const fail = (words: string) => setOutcome({ words, isError: true })

  const create = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    setBusy(true)
    const body = wishOf(new FormData(form), chosen)
    const answer = await admin<MadeSecret>('clients', { method: 'POST', body })
    setBusy(false)
    if (answer.status !== 201) return fail(answer.code === 'GW_CONFLICT' ? ownText('nameTaken') : problemOf(answer))
    setOutcome(undefined)
    setChosen({ areas: [], main: '' })
    form.reset()
    onMade(answer.body)
  }
  return html`<form id="new-client" class="panel" onSubmit=${create} aria-busy=${isBusy}><h2>${ownText('newClient')}</h2>
    <p><label for="client-name">${text('name')}</label><input id="client-name" name="name" required maxlength="64" autocomplete="off" dir="auto" /></p>
    <fieldset><legend>${text('profiles')}</legend><div class="checks">${allProfiles.map(
      ({ name }) => html`<label key=${name}><input type="checkbox" name="profile" value=${name} />${name}</label>`
    )}</div></fieldset>
    <${AreaChoice} chosen=${chosen} onChange=${setChosen} onProblem=${fail} />
    <p><label for="client-expires">${ownText('expiresHint')}</label><input id="client-expires" name="expires" type="date" min=${today()} max="9999-12-31" /></p>
    <p><label for="client-addresses">${ownText('addressesHint')}</label>
      <input id="client-addresses" name="addresses" autocomplete="off" spellcheck="false" placeholder="203.0.113.0/24, 2001:db8::/32" /></p>
    <${OutcomeLine} outcome=${outcome} />
    <p><button class="main" disabled=${isBusy}>${ownText('create')}</button></p></form>`
}
