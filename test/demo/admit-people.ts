// Logs the sample people in and gives them access, all through the gateway's own HTTP interface.
import type { DemoPerson } from './directory.ts'

interface DemoAccess {
  readonly profile: string
  readonly area: string
}

/** By login name. The first Admin gets hers from BOOTSTRAP_ADMINS, the others from her; anyone else waits. */
const DEMO_ACCESS: Readonly<Record<string, DemoAccess>> = {
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

/** A program's account: id and secret for the client credentials grant. */
export interface ProgramAccount {
  readonly clientId: string
  readonly clientSecret: string
}

interface Login {
  readonly token: string
  readonly user: { readonly id: number }
}

const accessOf = ({ profile, area }: DemoAccess) => ({ profiles: [profile], areas: [area], areaPrincipal: area })

/** Logs everyone in, the Admin first, and lets her assign access and create an account. The tokens are issued after that. */
export const admitPeople = async (url: string, sample: readonly DemoPerson[]) => {
  const call = createCall(url)
  const people: Admitted[] = []
  for (const person of sample) {
    const { username, password } = person
    const access = DEMO_ACCESS[username]
    const { user, token } = await call<Login>('POST', '/auth/login', undefined, { username, password })
    const admin = people[0]?.token
    if (admin === undefined) await call('POST', '/auth/admin/areas', token, { name: 'Vendas' })
    else if (access !== undefined) await call('PUT', `/auth/admin/users/${user.id}/access`, admin, accessOf(access))
    const fresh = await call<Login>('POST', '/auth/refresh', token)
    people.push({ person, id: user.id, token: fresh.token, access })
  }
  const account = { name: 'nightly-export', ...accessOf({ profile: 'Agente', area: 'Vendas' }) }
  const program = await call<ProgramAccount>('POST', '/auth/admin/clients', people[0]?.token, account)
  return { people, program }
}

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
