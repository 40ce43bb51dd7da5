// Logs people of the sample directory in through a gateway, reads their tokens, and writes the requests with JSON that follow.
import type { User } from '../../gateway/identity.ts'
import type { World } from './gateway.ts'
import { SAMPLE_PASSWORD } from './openldap-people.ts'

interface Manner {
  readonly password?: string | undefined
  /** The address that a trusted proxy names. */
  readonly from?: string
  readonly headers?: Readonly<Record<string, string>>
}

export const postLogin = (
  world: Pick<World, 'fetch'>,
  username: string,
  { password = SAMPLE_PASSWORD, from, headers = {} }: Manner = {}
): Promise<Response> => {
  const forwarded = from === undefined ? {} : { 'x-forwarded-for': from }
  const body = { username, password }
  return world.fetch('/auth/login', jsonRequest('POST', undefined, body, { ...forwarded, ...headers }))
}

/** A machine too busy to ask the directory or the database in time answers 503: it is asked again. */
export const postLoginAgain = async (world: Pick<World, 'fetch'>, username: string, manner?: Manner) => {
  let answer = await postLogin(world, username, manner)
  for (let tries = 1; answer.status === 503 && tries < 5; tries++) answer = await postLogin(world, username, manner)
  return answer
}

type Login = { readonly token: string; readonly user: User }

export const logIn = async (world: Pick<World, 'fetch'>, username: string, manner?: Manner): Promise<Login> =>
  (await (await postLoginAgain(world, username, manner)).json()) as Login

export const refreshLogin = (world: Pick<World, 'json'>, token: string | undefined): Promise<Login> =>
  world.json<Login>('/auth/refresh', { method: 'POST', token })

/** A service account asks for its token; refusals have the form of OAuth. */
export const postClient = (world: Pick<World, 'url'>, client_id = '', client_secret = ''): Promise<Response> => {
  const body = new URLSearchParams({ grant_type: 'client_credentials', client_id, client_secret })
  return fetch(`${world.url}/auth/token`, { method: 'POST', body })
}

export const jsonRequest = (
  method: string,
  token: string | undefined,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {}
) => ({
  method,
  token,
  headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
  body: body === undefined ? null : JSON.stringify(body)
})

/** Calls of the admin API, with JSON both ways. */
export const adminCall =
  (world: Pick<World, 'fetch'>, token: string) =>
  async (method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>) => {
    const answer = await world.fetch(`/auth/admin/${path}`, jsonRequest(method, token, body, headers))
    const text = await answer.text()
    return { status: answer.status, etag: answer.headers.get('etag'), body: text === '' ? undefined : JSON.parse(text) }
  }

type Claims = Record<string, unknown> & { jti: string; iat: number; exp: number; auth_time: number }

export const claimsOf = (token: string): Claims =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
