// Logs the sample people in and gives them access, all through the gateway's own HTTP interface.
import type { DemoPerson } from './directory.ts'

/** Access of a person in the demo; undefined: not yet assigned. */
export interface DemoAccess {
  readonly profile: string
  readonly area: string
}

/** By login name. The first Admin gets hers from BOOTSTRAP_ADMINS, the others from her. */
export const DEMO_ACCESS: Readonly<Record<string, DemoAccess>> = {
  maria: { profile: 'Admin', area: 'Geral' },
  carlos: { profile: 'Supervisor', area: 'Vendas' },
  ana: { profile: 'Agente', area: 'Vendas' }
}

export interface Admitted {
  readonly person: DemoPerson
  readonly id: number
  readonly token: string
  readonly access: DemoAccess | undefined
}

interface Login {
  readonly token: string
  readonly user: { readonly id: number }
}

/** Logs everyone in and assigns access to those who should have it. The tokens are issued after that. */
export const admitPeople = async (url: string, people: readonly DemoPerson[]): Promise<Admitted[]> => {
  const call = createCall(url)
  const logIn = ({ username, password }: DemoPerson) =>
    call<Login>('POST', '/auth/login', undefined, { username, password })
  const admin = people.find(({ username }) => DEMO_ACCESS[username]?.profile === 'Admin')
  if (admin === undefined) throw new Error('nobody could assign anybody')
  const { token } = await logIn(admin)
  await call('POST', '/auth/admin/areas', token, { name: 'Vendas' })
  const admitted: Admitted[] = []
  for (const person of people) {
    const access = DEMO_ACCESS[person.username]
    const login = await logIn(person)
    if (access === undefined || person === admin) {
      admitted.push({ person, id: login.user.id, token: login.token, access })
      continue
    }
    const body = { profiles: [access.profile], areas: [access.area], areaPrincipal: access.area }
    await call('PUT', `/auth/admin/users/${login.user.id}/access`, token, body)
    const fresh = await call<Login>('POST', '/auth/refresh', login.token)
    admitted.push({ person, id: login.user.id, token: fresh.token, access })
  }
  return admitted
}

/** A program's account: id and secret for the client credentials grant. */
export interface ProgramAccount {
  readonly clientId: string
  readonly clientSecret: string
}

/** Created by the Admin with this token. */
export const admitProgram = (url: string, token: string): Promise<ProgramAccount> =>
  createCall(url)<ProgramAccount>('POST', '/auth/admin/clients', token, {
    name: 'nightly-export',
    profiles: ['Agente'],
    areas: ['Vendas'],
    areaPrincipal: 'Vendas'
  })

export const createCall =
  (url: string) =>
  async <T>(
    method: string,
    path: string,
    token?: string,
    body?: object,
    more: Readonly<Record<string, string>> = {}
  ): Promise<T> => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...more,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` })
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return JSON.parse(text) as T
  }
