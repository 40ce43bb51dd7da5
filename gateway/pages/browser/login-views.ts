// Renders the login page: the available logins, or the person and their access.
import { LanguageSwitch, providerName } from './language.ts'
import { type Doors, logIn, type Notice, returnTo, startCloudLogin } from './login-state.ts'
import { type ComponentChildren, html, useEffect, useRef, useState, type VNode } from './render.ts'
import { brand, fact } from './session.ts'
import { nameOf, type User } from './shapes.ts'
import { text } from './words-login.ts'

const waitWords = (seconds: number): string =>
  seconds > 90 ? text('minutes', { n: Math.ceil(seconds / 60) }) : text('seconds', { n: Math.max(seconds, 1) })

const NoticeLine = ({ notice }: { notice: Notice | undefined }): VNode => {
  const values = { ...notice?.values, wait: waitWords(Number(notice?.values?.seconds ?? 0)) }
  const words = notice === undefined ? '' : text(notice.key, values)
  // Always present, so that screen readers announce changes.
  return html`<div class="notice" data-empty=${words === ''} data-error=${notice?.isError === true} role=${
    notice?.isError === true ? 'alert' : 'status'
  }>${words}</div>`
}

export const Card = ({ children }: { children?: ComponentChildren }): VNode => html`
  <div class="stage">
    <header class="brand"><span class="mark" aria-hidden="true"></span><bdi>${brand()}</bdi></header>
    <main class="card">${children}</main>
    <footer><${LanguageSwitch} label=${text('language')} /></footer>
  </div>`

const PasswordForm = ({ onIn, onNotice }: Pick<OutProps, 'onIn' | 'onNotice'>): VNode => {
  const [isBusy, setBusy] = useState(false)
  const [isShown, setShown] = useState(false)
  const username = useRef<HTMLInputElement>(null)
  const password = useRef<HTMLInputElement>(null)
  useEffect(() => username.current?.focus(), [])

  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    onNotice(undefined)
    const result = await logIn(username.current?.value ?? '', password.current?.value ?? '')
    setBusy(false)
    if ('id' in result) return onIn(result)
    onNotice(result)
    setShown(false)
    password.current?.focus()
    password.current?.select()
  }

  // The types of elements take either of the two, but not a choice between them.
  const type = (isShown ? 'text' : 'password') as 'password'
  return html`
    <form method="post" action="/auth/login" onSubmit=${submit} aria-busy=${isBusy}>
      <label for="username">${text('username')}</label>
      <input ref=${username} id="username" name="username" type="text" required maxlength="256" autocomplete="username"
        autocapitalize="none" autocorrect="off" spellcheck=${false} dir="auto" />
      <label for="password">${text('password')}</label>
      <div class="field">
        <input ref=${password} id="password" name="password" type=${type} required maxlength="1024"
          autocomplete="current-password" autocapitalize="none" spellcheck=${false} />
        <button type="button" class="peek" aria-pressed=${isShown} aria-label=${text(isShown ? 'hide' : 'show')}
          title=${text(isShown ? 'hide' : 'show')} onClick=${() => setShown(!isShown)}><span aria-hidden="true"></span></button>
      </div>
      <button type="submit" class="main" disabled=${isBusy}>${text(isBusy ? 'submitting' : 'submit')}</button>
    </form>`
}

/** CONTACT, where someone has to ask for help. */
const Contact = (): VNode | null => {
  const contact = fact('contact')
  return contact === '' ? null : html`<p class="quiet">${text('contact', { contact })}</p>`
}

interface OutProps {
  readonly doors: Doors | undefined
  readonly notice: Notice | undefined
  readonly onIn: (user: User) => void
  readonly onNotice: (notice?: Notice) => void
}

export const OutView = ({ doors, notice, onIn, onNotice }: OutProps): VNode => html`
  <h1>${text('title')}</h1>
  <p class="quiet">${text('intro')}</p>
  <${NoticeLine} notice=${notice} />
  ${notice?.key === 'passwordExpired' && html`<${Contact} />`}
  ${doors === undefined && notice === undefined && html`<p class="quiet">${text('loading')}</p>`}
  ${doors?.ldap && html`<${PasswordForm} onIn=${onIn} onNotice=${onNotice} />`}
  ${doors?.ldap && doors.cloudUrl !== '' && html`<div class="or"><span>${text('or')}</span></div>`}
  ${
    doors !== undefined &&
    doors.cloudUrl !== '' &&
    html`<button type="button" class="wide" id="cloud" onClick=${() => startCloudLogin(doors.cloudUrl)}>
      <span class="cloud" aria-hidden="true"></span>${doors.cloudName === '' ? text('cloud') : text('cloudNamed', { name: doors.cloudName })}</button>`
  }
  ${doors !== undefined && !doors.ldap && doors.cloudUrl === '' && html`<p>${text('none')}</p>`}`

const Chips = ({ items, none, mark }: { items: readonly string[]; none: string; mark?: string }): VNode =>
  items.length === 0
    ? html`<span class="quiet">${none}</span>`
    : html`<ul class="chips">${items.map(
        item => html`<li key=${item}><bdi>${item}</bdi>${item === mark && html` <small>(${text('main')})</small>`}</li>`
      )}</ul>`

interface OtherProps {
  readonly user: User
  readonly owner: string
  readonly onOpen: () => void
  readonly onOwner: () => void
}

/** In a pop-up: the page that asked for the login belongs to somebody else. */
export const OtherView = ({ user, owner, onOpen, onOwner }: OtherProps): VNode => {
  const names = { owner, name: nameOf(user) }
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [])
  return html`<h1 ref=${heading} tabindex="-1">${text('otherTitle')}</h1><p>${text('other', names)}</p>
    <div class="actions"><button type="button" class="main" id="log-in-as-owner" onClick=${onOwner}>${text('logInAsOwner', names)}</button>
      <button type="button" id="open-as-me" onClick=${onOpen}>${text('openAsMe', names)}</button></div>`
}

interface InProps {
  readonly user: User
  readonly notice: Notice | undefined
  readonly onOut: () => void
}

export const InView = ({ user, notice, onOut }: InProps): VNode => {
  const isAssigned = user.accessStatus === 'assigned'
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [isAssigned])
  return html`
    <h1 ref=${heading} tabindex="-1">${text(isAssigned ? 'hello' : 'waitingTitle')}</h1>
    <${NoticeLine} notice=${notice} />
    ${
      !isAssigned &&
      html`<p>${text('waiting')}</p><p class="waiting"><span class="pulse" aria-hidden="true"></span>${text('waitingNote')}</p>
      <${Contact} />`
    }
    <p class="quiet">${text('inAs')}</p>
    <p class="person"><bdi id="who">${nameOf(user)}</bdi>
      <span class="quiet"><bdi>${user.username}</bdi> · ${providerName(user.provider)}</span></p>
    <dl>
      <div><dt>${text('status')}</dt><dd><span class="state" data-state=${user.accessStatus}>${text(user.accessStatus)}</span></dd></div>
      <div><dt>${text('profiles')}</dt><dd><${Chips} items=${user.profiles} none=${text('nothing')} /></dd></div>
      <div><dt>${text('areas')}</dt><dd><${Chips} items=${user.areas} none=${text('noneArea')} mark=${user.areaPrincipal} /></dd></div>
    </dl>
    <div class="actions">
      ${returnTo !== undefined && html`<a class="button main" href=${returnTo}>${text(isAssigned ? 'continue' : 'continueAnyway')}</a>`}
      ${fact('apps') === 'true' && html`<a class="button" href="/auth/apps">${text('apps')}</a>`}
      ${user.profiles.includes('Admin') && html`<a class="button" href="/auth/console">${text('console')}</a>`}
      <a class="button" href="/auth/account">${text('account')}</a>
      <button type="button" id="logout" onClick=${onOut}>${text('logout')}</button>
    </div>`
}
