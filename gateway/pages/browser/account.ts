// Renders the account page: a person's access, where they are logged in, and access tokens for their programs.
import { call, type Loaded, problemOf, useAll, useLoad } from './console-data.ts'
import { actions, actOf, type Column, Rows, Secret, State, timeOrNever, useActs } from './console-parts.ts'
import { Field, sends } from './fields.ts'
import { dateTime } from './language.ts'
import { SmallPage, startPage } from './page.ts'
import { html, useState, type VNode } from './render.ts'
import { loginAddress } from './session.ts'
import { type AccessItem, groupsOf, includesName, type SessionItem, type TokenItem, type User } from './shapes.ts'
import { dayOf, endOfDay } from './times.ts'
import { giveUpUnsaved, useUnsaved } from './unsaved.ts'
import { text } from './words-account.ts'

const App = ({ user }: { user: User }): VNode => {
  const access = useLoad<AccessItem>('/auth/account/access')
  const sessions = useAll<SessionItem>('/auth/sessions')
  const tokens = useAll<TokenItem>('/auth/tokens')
  const isReady = [access, sessions, tokens].every(({ data, problem }) => data !== undefined || problem !== '')
  return html`<${SmallPage} user=${user} current="account" isReady=${isReady}>
    <${AccessPart} of=${access} /><${SessionsPart} of=${sessions} /><${TokensPart} of=${tokens} user=${user} /><//>`
}

void startPage({ view: user => html`<${App} user=${user} />` })

const originsOf = (access: AccessItem, kind: 'profiles' | 'areas', name: string): string => {
  const byAdmin = includesName(access.assigned[kind], name) ? [text('byAdmin')] : []
  return [...byAdmin, ...groupsOf(access, kind, name).map(group => text('byGroup', { group }))].join('; ')
}

const Part = ({ access, kind, names }: { access: AccessItem; kind: 'profiles' | 'areas'; names: readonly string[] }) =>
  names.length === 0
    ? html`<dd>${text('none')}</dd>`
    : names.map(
        name =>
          html`<dd key=${name}><bdi>${name}</bdi> <small class="quiet"><bdi>${originsOf(access, kind, name)}</bdi></small></dd>`
      )

const AccessPart = ({ of: { data: access, problem } }: { of: Loaded<AccessItem> }): VNode => html`
  <section id="access-part"><h2 id="access">${text('access')}</h2>
    ${problem !== '' && html`<p role="alert">${problem}</p>`}
    ${access?.accessStatus === 'unassigned' && html`<p>${text('waiting')}</p>`}
    ${access?.groupsCutOff && html`<p>${text('cutOff')}</p>`}
    ${
      access !== undefined &&
      html`<dl><dt>${text('profiles')}</dt><${Part} access=${access} kind="profiles" names=${access.profiles} />
        <dt>${text('areas')}</dt><${Part} access=${access} kind="areas" names=${access.areas} />
        <dt>${text('mainArea')}</dt><${Part} access=${access} kind="areas" names=${access.areaPrincipal === '' ? [] : [access.areaPrincipal]} /></dl>`
    }</section>`

const SessionsPart = ({ of: { data, problem, reload } }: { of: Loaded<readonly SessionItem[]> }): VNode => {
  const { ask, change, notices } = useActs(reload, problem)
  const end = (path: string) => change(path, 'DELETE', text('ended'))
  const endOthers = () => ask(actOf(text, 'endOthers', {}, () => end('/auth/sessions')))
  const [head, endCell] = actions<SessionItem>(({ id, userAgent }) => [
    [text('end'), text('endSession', { name: userAgent.slice(0, 60) }), () => end(`/auth/sessions/${id}`)]
  ])
  const columns: Column<SessionItem>[] = [
    [text('browser'), ({ userAgent }) => userAgent.slice(0, 120) || '–'],
    [text('address'), ({ ip }) => ip || '–'],
    [text('began'), ({ createdAt }) => dateTime(createdAt)],
    [text('lastUsed'), ({ lastUsedAt }) => dateTime(lastUsedAt, 'short')],
    [head, item => (item.current ? html`<${State} is="ok">${text('current')}<//>` : endCell(item))]
  ]
  return html`<section id="sessions-part"><h2 id="sessions">${text('sessions')}</h2>${notices}
    ${data !== undefined && html`<${Rows} label=${text('sessions')} columns=${columns} items=${data} keyOf=${({ id }: SessionItem) => id} />`}
    ${data !== undefined && data.length > 1 && html`<p><button type="button" id="end-others" onClick=${endOthers}>${text('endOthers')}</button></p>`}</section>`
}

const DAY_MS = 86_400_000
const dayFromNow = (days: number): string => dayOf(new Date(Date.now() + days * DAY_MS))

type NewTokenItem = TokenItem & { readonly token: string }

const NewToken = ({ user, onMade }: { user: User; onMade: (token: NewTokenItem) => void }): VNode => {
  const { say, notices } = useActs()
  const [needsLogin, setNeedsLogin] = useState(false)
  const [isTouched, setTouched] = useState(false)
  useUnsaved(isTouched)
  const make = async (form: HTMLFormElement) => {
    const data = new FormData(form)
    const body = {
      name: String(data.get('name')),
      profiles: data.getAll('profile').map(String),
      expiresAt: endOfDay(data.get('expires'))
    }
    const answer = await call<NewTokenItem>('/auth/tokens', { method: 'POST', body })
    const isTooOld = answer.code === 'GW_LOGIN_REQUIRED'
    setNeedsLogin(isTooOld)
    if (answer.status !== 201)
      return say(isTooOld ? text('loginAgain') : problemOf(answer, text('tooManyTokens')), true)
    say('')
    form.reset()
    setTouched(false)
    onMade(answer.body)
  }
  return html`<form id="new-token" onSubmit=${sends(make)} onInput=${() => setTouched(true)}><h3>${text('newToken')}</h3>
    <${Field} id="token-name" label=${text('name')} name="name" required maxlength="64" />
    <fieldset><legend>${text('profiles')}</legend>${user.profiles.map(
      profile =>
        html`<label key=${profile}><input type="checkbox" name="profile" value=${profile} defaultChecked /> ${profile}</label> `
    )}${user.profiles.length === 0 && text('none')}</fieldset>
    <${Field} id="token-expires" label=${text('expires')} name="expires" type="date" required min=${dayFromNow(0)} max=${dayFromNow(364)} defaultValue=${dayFromNow(30)} />
    ${notices}
    ${needsLogin && html`<p><a class="button" href=${loginAddress({ again: true })} onClick=${giveUpUnsaved}>${text('logIn')}</a></p>`}
    <p><button class="main">${text('make')}</button></p></form>`
}

/** A new token is shown once; the list has when each was used. */
const TokensPart = ({ of: tokens, user }: { of: Loaded<readonly TokenItem[]>; user: User }): VNode => {
  const { data, problem, reload } = tokens
  const { ask, change, notices } = useActs(reload, problem)
  const [made, setMade] = useState<readonly NewTokenItem[]>([])
  const remove = ({ id, name }: TokenItem) =>
    ask(actOf(text, 'remove', { name }, () => change(`/auth/tokens/${id}`, 'DELETE', '')))
  const columns: Column<TokenItem>[] = [
    [text('name'), ({ name }) => html`<bdi>${name}</bdi>`],
    [text('profiles'), ({ profiles }) => profiles.join(', ') || text('none')],
    [text('expires'), ({ expiresAt }) => dateTime(expiresAt)],
    [text('lastUsed'), ({ lastUsedAt }) => timeOrNever(lastUsedAt)],
    actions(token => [[text('remove'), text('removeToken', { name: token.name }), () => remove(token)]])
  ]
  const onMade = (token: NewTokenItem) => {
    setMade(shown => [token, ...shown])
    reload()
  }
  return html`<section id="tokens-part"><h2 id="tokens">${text('tokens')}</h2><p class="quiet">${text('tokensNote')}</p>
    ${notices}
    ${data?.length === 0 && html`<p class="quiet">${text('noTokens')}</p>`}
    ${data !== undefined && data.length > 0 && html`<${Rows} label=${text('tokens')} columns=${columns} items=${data} keyOf=${({ id }: TokenItem) => id} />`}
    ${made.map(
      item =>
        html`<${Secret} key=${item.id} title=${text('tokenOf', { name: item.name })} value=${item.token} note=${text('made')} onHide=${() => setMade(shown => shown.filter(other => other !== item))} />`
    )}
    <${NewToken} user=${user} onMade=${onMade} /></section>`
}
