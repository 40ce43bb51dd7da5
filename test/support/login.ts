// Logs people of the sample directory in through a gateway, reads their tokens, and writes the requests with JSON that follow.
import type { User } from '../../gateway/identity.ts'
import type { World } from './gateway.ts'
import { SAMPLE_PASSWORD } from './openldap-people.ts'

interface Manner {
  readonly password?: string
  readonly headers?: Readonly<Record<string, string>>
}

export const postLogin = (
  world: Pick<World, 'fetch'>,
  username: string,
  { password = SAMPLE_PASSWORD, headers = {} }: Manner = {}
): Promise<Response> =>
  world.fetch('/auth/login', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ username, password })
  })

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

export const jsonRequest = (method: string, token: string | undefined, body?: unknown) => ({
  method,
  token,
  ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
})

type Claims = Record<string, unknown> & { jti: string; iat: number; exp: number; auth_time: number }

export const claimsOf = (token: string): Claims =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
