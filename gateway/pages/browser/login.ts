// Runs the login page: shows the form or the person, waits with unassigned people, and follows other tabs.
import './fragment.ts'
import './pages.css'
import { askWhileVisible } from './ask-while-visible.ts'
import { useLanguage } from './language.ts'
import { leave, leaveForApps } from './login-leave.ts'
import { type Doors, findDoors, findStart, isPopup, type Notice, noticeFor } from './login-state.ts'
import { Card, InView, OtherView, OutView } from './login-views.ts'
import { goOnByCookie } from './page-session.ts'
import { Boundary, html, render, useEffect, useRef, useState, type VNode } from './render.ts'
import { brand, endQuietly, forget, keptToken, logOut, onNews, refresh } from './session.ts'
import { nameOf, type User } from './shapes.ts'
import { text } from './words-login.ts'

/** The gateway may be back, or an Admin may have given access, which is looked for less and less often. */
const FIRST_LOOK_MS = 3000
const LAST_LOOK_MS = 30_000

const App = (): VNode => {
  useLanguage()
  const [user, setUser] = useState<User | undefined>()
  const [doors, setDoors] = useState<Doors | undefined>()
  const [notice, setNotice] = useState<Notice | undefined>()
  const [isOut, setOut] = useState(false)
  /** Why the logins that are possible are not known yet. */
  const [away, setAway] = useState<Notice | undefined>()
  const [isDone, setDone] = useState(false)
  /** There may be a session: the gateway was away when it was looked for. */
  const isUnknown = useRef(false)
  /** Whose page asked for this login, if it is not the page of `user`. */
  const [owner, setOwner] = useState<string | undefined>()

  const out = (why?: Notice) => {
    setUser(undefined)
    setNotice(why)
    setOut(true)
  }
  const enter = async (who: User, isFresh: boolean, toAnyone = false) => {
    if (isFresh && (await leaveForApps(who))) return
    setUser(who)
    setNotice(undefined)
    if (!isFresh && isPopup) return
    const left = leave(who, { isFresh, toAnyone })
    setOwner(typeof left === 'object' ? left.owner : undefined)
    setDone(left === true && isPopup)
  }
  const logInAsOwner = async () => {
    await endQuietly()
    // The provider asks who it is, although it still has the session of this person.
    location.replace('/auth/login?popup=1&again=1')
  }

  const begin = async () => {
    const start = await findStart()
    isUnknown.current = start.is === 'unknown'
    if (start.is === 'in') await enter(start.user, start.isFresh)
    else out(start.notice)
  }
  useEffect(() => void begin(), [])

  useEffect(() => {
    if (!isOut || doors !== undefined) return
    const take = async (found: Doors | Notice) => {
      const isAway = 'key' in found
      setAway(isAway ? found : undefined)
      // What was said before for the same reason is over with it.
      if (isAway) return setNotice(now => (now?.key === found.key ? undefined : now))
      if (isUnknown.current) await begin()
      setDoors(found)
    }
    return askWhileVisible(findDoors, take, FIRST_LOOK_MS, LAST_LOOK_MS)
  }, [isOut, doors])

  useEffect(() => {
    if (user === undefined) return
    document.title = `${nameOf(user)} · ${brand()}`
    const stopHearing = onNews(({ kind, userId }) => {
      if (kind !== 'logout' || userId !== user.id) return
      // The other tab may have had a login of its own; this one ends too.
      if (keptToken() !== undefined) void endQuietly()
      out({ key: 'loggedOutElsewhere', isError: false })
    })
    if (user.accessStatus === 'assigned') return stopHearing
    const take = async (answer: Awaited<ReturnType<typeof refresh>>) => {
      if (answer.status === 401) {
        if (await goOnByCookie(user)) return
        forget()
        return out({ key: 'ended', isError: false })
      }
      if (answer.status !== 200) return setNotice(noticeFor(answer))
      const who = answer.body.user
      if (who.accessStatus !== 'assigned') return setNotice(undefined)
      setUser(who)
      setNotice({ key: 'granted', isError: false })
      leave(who)
    }
    const stopWatching = askWhileVisible(refresh, take, FIRST_LOOK_MS, LAST_LOOK_MS)
    return () => {
      stopHearing()
      stopWatching()
    }
  }, [user])

  useEffect(() => {
    if (user === undefined) document.title = `${text('title')} · ${brand()}`
  })

  const leaveAccount = async () => {
    if (user === undefined) return
    const logout = await logOut(user)
    if (logout.is === 'failed') return setNotice(noticeFor(logout.answer))
    if (logout.url !== undefined) return location.assign(logout.url)
    out({ key: 'loggedOut', isError: false })
  }

  // Nothing is painted that something else would move a moment later.
  if (user === undefined && !isDone && doors === undefined && away === undefined) {
    return html`<div class="stage"><p class="quiet late" role="status">${text('loading')}</p></div>`
  }
  const view = isDone
    ? html`<p role="status">${text('close')}</p>`
    : user !== undefined && owner !== undefined
      ? html`<${OtherView} user=${user} owner=${owner} onOpen=${() => enter(user, true, true)} onOwner=${logInAsOwner} />`
      : user !== undefined
        ? html`<${InView} user=${user} notice=${notice} onOut=${leaveAccount} />`
        : html`<${OutView} doors=${doors} notice=${away ?? notice} onNotice=${setNotice} onIn=${(who: User) => enter(who, true)} />`
  return html`<${Card}>${view}<//>`
}

const failed = () => html`<${Card}><p role="alert">${text('broken')}</p><//>`

const root = document.getElementById('app')
root?.replaceChildren()
if (root !== null) render(html`<${Boundary} failed=${failed}><${App} /><//>`, root)
