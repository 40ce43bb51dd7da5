// Lets a person create access tokens for their programs, see their last use, and remove them.
import { type ListOf, problemOf, usePart } from './console-data.ts'
import { type Outcome, OutcomeLine, Table, useActs } from './console-parts.ts'
import { dateTime } from './language.ts'
import { loginAddress } from './page-session.ts'
import { html, useState, type VNode } from './render.ts'
import { ask, type User } from './session.ts'
import { text } from './words-account.ts'

interface Token {
  readonly id: number
  readonly name: string
  readonly profiles: readonly string[]
  readonly expiresAt: string
  readonly lastUsedAt: string
}

const DAY_MS = 86_400_000
/** In the format of a date field. */
const dayFromNow = (days: number): string => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)

interface FormProps {
  readonly user: User
  readonly onMade: (token: string) => void
}

const NewToken = ({ user, onMade }: FormProps): VNode => {
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [needsLogin, setNeedsLogin] = useState(false)
  const make = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const data = new FormData(form)
    const body = {
      name: String(data.get('name')),
      profiles: data.getAll('profile').map(String),
      // The end of the selected day, at most a year from now.
      expiresAt: new Date(`${data.get('expires')}T23:59:59`).toISOString()
    }
    const answer = await ask<{ token: string }>('/auth/tokens', { method: 'POST', body })
    setNeedsLogin(answer.code === 'GW_LOGIN_REQUIRED')
    if (answer.status !== 201) {
      const words = answer.code === 'GW_LOGIN_REQUIRED' ? text('loginAgain') : problemOf(answer)
      return setOutcome({ words, isError: true })
    }
    setOutcome(undefined)
    form.reset()
    onMade(answer.body.token)
  }
  return html`<form id="new-token" onSubmit=${make}><h3>${text('newToken')}</h3>
    <p><label for="token-name">${text('name')}</label><input id="token-name" name="name" required maxlength="64" autocomplete="off" /></p>
    <fieldset><legend>${text('profiles')}</legend>${user.profiles.map(
      profile =>
        html`<label key=${profile}><input type="checkbox" name="profile" value=${profile} checked /> ${profile}</label> `
    )}${user.profiles.length === 0 && text('none')}</fieldset>
    <p><label for="token-expires">${text('expires')}</label>
      <input id="token-expires" name="expires" type="date" required min=${dayFromNow(0)} max=${dayFromNow(364)} value=${dayFromNow(30)} /></p>
    <${OutcomeLine} outcome=${outcome} />
    ${needsLogin && html`<p><a class="button" href=${loginAddress({ again: true })}>${text('logIn')}</a></p>`}
    <p><button class="main">${text('make')}</button></p></form>`
}

/** Selected completely on focus, so that it can be copied with the keyboard too. */
const Made = ({ token }: { token: string }): VNode => {
  const [copied, setCopied] = useState(false)
  const copy = () => navigator.clipboard.writeText(token).then(() => setCopied(true))
  return html`<div class="notice" role="status" id="made-token"><p>${text('made')}</p>
    <p><label for="token-value">${text('tokenValue')}</label>
      <input id="token-value" readonly value=${token} onFocus=${(event: FocusEvent) => (event.target as HTMLInputElement).select()} /></p>
    <p><button type="button" onClick=${copy}>${text(copied ? 'copied' : 'copy')}</button></p></div>`
}

export const TokensPart = ({ user, onLoaded }: { user: User; onLoaded: () => void }): VNode => {
  const { data, problem, reload } = usePart<ListOf<Token>>('/auth/tokens?pageSize=200', onLoaded)
  const { ask: confirm, settle, notices } = useActs(problem)
  const [made, setMade] = useState('')
  const items = data?.items ?? []
  const remove = async (id: number) => {
    settle(await ask(`/auth/tokens/${id}`, { method: 'DELETE' }), '')
    reload()
  }
  const askRemove = ({ id, name }: Token) =>
    confirm({
      title: text('removeAsk'),
      consequence: text('removeWill', { name }),
      label: text('remove'),
      run: () => void remove(id)
    })
  const row = (token: Token) => html`<tr key=${token.id}>
    <th scope="row" data-label=${text('name')}><bdi>${token.name}</bdi></th>
    <td data-label=${text('profiles')}>${token.profiles.join(', ') || text('none')}</td>
    <td data-label=${text('expires')}>${dateTime(token.expiresAt)}</td>
    <td data-label=${text('lastUsed')}>${token.lastUsedAt === '' ? text('never') : dateTime(token.lastUsedAt)}</td>
    <td data-label=${text('actions')}><button type="button" aria-label=${text('removeToken', { name: token.name })} onClick=${() => askRemove(token)}>${text('remove')}</button></td></tr>`
  const heads = [text('name'), text('profiles'), text('expires'), text('lastUsed'), text('actions')]
  return html`<section id="tokens-part"><h2 id="tokens">${text('tokens')}</h2><p class="quiet">${text('tokensNote')}</p>
    ${notices}
    ${data?.items.length === 0 && html`<p class="quiet">${text('noTokens')}</p>`}
    ${items.length > 0 && html`<${Table} label=${text('tokens')} heads=${heads}>${items.map(row)}<//>`}
    ${made !== '' && html`<${Made} token=${made} />`}
    <${NewToken} user=${user} onMade=${(token: string) => {
      setMade(token)
      reload()
    }} /></section>`
}
