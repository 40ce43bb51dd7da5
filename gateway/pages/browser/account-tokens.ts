// Lets a person create access tokens for their programs, see their last use, and remove them.
import { type ListOf, type Loaded, problemOf } from './console-data.ts'
import { actOf, Buttons, type Column, Rows, Secret, useActs } from './console-parts.ts'
import { Field, sends } from './fields.ts'
import { dateTime } from './language.ts'
import { loginAddress } from './page-session.ts'
import { html, useState, type VNode } from './render.ts'
import { ask } from './session.ts'
import type { TokenItem, User } from './shapes.ts'
import { text } from './words-account.ts'

const DAY_MS = 86_400_000
/** In the format of a date field. */
const dayFromNow = (days: number): string => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)

interface FormProps {
  readonly user: User
  readonly onMade: (token: string) => void
}

const NewToken = ({ user, onMade }: FormProps): VNode => {
  const { say, notices } = useActs()
  const [needsLogin, setNeedsLogin] = useState(false)
  const make = async (form: HTMLFormElement) => {
    const data = new FormData(form)
    const body = {
      name: String(data.get('name')),
      profiles: data.getAll('profile').map(String),
      // The end of the selected day, at most a year from now.
      expiresAt: new Date(`${data.get('expires')}T23:59:59`).toISOString()
    }
    const answer = await ask<{ token: string }>('/auth/tokens', { method: 'POST', body })
    const isTooOld = answer.code === 'GW_LOGIN_REQUIRED'
    setNeedsLogin(isTooOld)
    if (answer.status !== 201) return say(isTooOld ? text('loginAgain') : problemOf(answer), true)
    say('')
    form.reset()
    onMade(answer.body.token)
  }
  return html`<form id="new-token" onSubmit=${sends(make)}><h3>${text('newToken')}</h3>
    <${Field} id="token-name" label=${text('name')} name="name" required maxlength="64" />
    <fieldset><legend>${text('profiles')}</legend>${user.profiles.map(
      profile =>
        html`<label key=${profile}><input type="checkbox" name="profile" value=${profile} checked /> ${profile}</label> `
    )}${user.profiles.length === 0 && text('none')}</fieldset>
    <${Field} id="token-expires" label=${text('expires')} name="expires" type="date" required min=${dayFromNow(0)} max=${dayFromNow(364)} value=${dayFromNow(30)} />
    ${notices}
    ${needsLogin && html`<p><a class="button" href=${loginAddress({ again: true })}>${text('logIn')}</a></p>`}
    <p><button class="main">${text('make')}</button></p></form>`
}

interface PartProps {
  readonly of: Loaded<ListOf<TokenItem>>
  readonly user: User
}

export const TokensPart = ({ of: { data, problem, reload }, user }: PartProps): VNode => {
  const { ask: confirm, settle, notices } = useActs(problem)
  const [made, setMade] = useState('')
  const remove = async (id: number) => {
    settle(await ask(`/auth/tokens/${id}`, { method: 'DELETE' }), '')
    reload()
  }
  const askRemove = ({ id, name }: TokenItem) => confirm(actOf(text, 'remove', { name }, () => remove(id)))
  const columns: Column<TokenItem>[] = [
    [text('name'), ({ name }) => html`<bdi>${name}</bdi>`],
    [text('profiles'), ({ profiles }) => profiles.join(', ') || text('none')],
    [text('expires'), ({ expiresAt }) => dateTime(expiresAt)],
    [text('lastUsed'), ({ lastUsedAt }) => (lastUsedAt === '' ? text('never') : dateTime(lastUsedAt))],
    [
      text('actions'),
      token =>
        html`<${Buttons} of=${[[text('remove'), text('removeToken', { name: token.name }), () => askRemove(token)]]} />`
    ]
  ]
  const onMade = (token: string) => {
    setMade(token)
    reload()
  }
  return html`<section id="tokens-part"><h2 id="tokens">${text('tokens')}</h2><p class="quiet">${text('tokensNote')}</p>
    ${notices}
    ${data?.items.length === 0 && html`<p class="quiet">${text('noTokens')}</p>`}
    ${data !== undefined && data.items.length > 0 && html`<${Rows} label=${text('tokens')} columns=${columns} items=${data.items} keyOf=${({ id }: TokenItem) => id} />`}
    ${made !== '' && html`<${Secret} key=${made} title=${text('tokenValue')} value=${made} note=${text('made')} onHide=${() => setMade('')} />`}
    <${NewToken} user=${user} onMade=${onMade} /></section>`
}
