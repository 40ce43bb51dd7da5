// Answers as an OpenID provider on loopback, rightly or wrongly as a test wants, and remembers what it was asked.
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import type { Test } from 'tap'
import { listen } from './ports.ts'

type Endpoint = 'discovery' | 'jwks' | 'token' | 'userinfo'
type Fields = Record<string, unknown>
export type Fault = (res: ServerResponse, req: IncomingMessage) => void

export type FaultyProvider = Awaited<ReturnType<typeof startFaultyProvider>>

interface Pending {
  readonly nonce: string | null
  readonly challenge: string | null
  readonly redirectUri: string | null
}

export const answerJson = (res: ServerResponse, body: unknown, status = 200): void => {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Of all that this process starts: a key takes longer to make than everything else of a provider. */
let keyPair: ReturnType<typeof generateKeyPair> | undefined

export const startFaultyProvider = async (t: Pick<Test, 'teardown'>) => {
  const server = createServer()
  const port = await listen(t, server)
  const issuer = `http://127.0.0.1:${port}`
  keyPair ??= generateKeyPair('RS256', { extractable: true })
  const { privateKey, publicKey } = await keyPair
  const pending = new Map<string, Pending>()
  const provider = {
    issuer,
    /** Answers of an endpoint, instead of the right ones. */
    faults: {} as Partial<Record<Endpoint, Fault>>,
    /** Claims that differ from the right ones; undefined removes one. */
    claims: {} as Fields,
    profile: {} as Fields,
    metadata: {} as Fields,
    tokenAnswer: {} as Fields,
    /** Makes the ID token from its claims. */
    sign: (claims: Fields): Promise<string> =>
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(privateKey),
    keys: [{ ...(await exportJWK(publicKey)), kid: 'one', use: 'sig', alg: 'RS256' }] as JWK[],
    privateKey,
    tokenRequests: [] as { authorization: string | undefined; form: URLSearchParams }[],
    asked: { discovery: 0, jwks: 0, token: 0, userinfo: 0 },
    /** A code for what the authorization request asks, with the address of the callback. */
    authorize: (url: string) => authorize(pending, url)
  }
  server.on('request', (req, res) => {
    serve(provider, pending, req, res).catch(() => res.destroy())
  })
  return provider
}

const authorize = (pending: Map<string, Pending>, authorizationUrl: string): string => {
  const { searchParams } = new URL(authorizationUrl)
  const code = `code-${pending.size + 1}`
  const redirectUri = searchParams.get('redirect_uri')
  pending.set(code, { nonce: searchParams.get('nonce'), challenge: searchParams.get('code_challenge'), redirectUri })
  return `${redirectUri}?${new URLSearchParams({ code, state: searchParams.get('state') ?? '' })}`
}

const PATHS: Record<string, Endpoint> = {
  '/.well-known/openid-configuration': 'discovery',
  '/jwks': 'jwks',
  '/token': 'token',
  '/userinfo': 'userinfo'
}

const serve = async (
  provider: FaultyProvider,
  pending: Map<string, Pending>,
  req: IncomingMessage,
  res: ServerResponse
): Promise<void> => {
  const path = (req.url ?? '').replace(/^\/(common|organizations)(\/v2\.0)?/, '')
  const endpoint = PATHS[path]
  if (endpoint === undefined) {
    res.writeHead(404).end()
    return
  }
  provider.asked[endpoint]++
  const form = new URLSearchParams(await readText(req))
  if (endpoint === 'token') provider.tokenRequests.push({ authorization: req.headers.authorization, form })
  const fault = provider.faults[endpoint]
  if (fault !== undefined) return fault(res, req)
  if (endpoint === 'discovery') return answerJson(res, metadataOf(provider))
  if (endpoint === 'jwks') return answerJson(res, { keys: provider.keys })
  if (endpoint === 'userinfo') return answerJson(res, { sub: 'subject-1', name: 'Ana Souza', ...provider.profile })
  return answerToken(provider, pending, form, res)
}

const answerToken = async (
  provider: FaultyProvider,
  pending: Map<string, Pending>,
  form: URLSearchParams,
  res: ServerResponse
): Promise<void> => {
  const request = pending.get(form.get('code') ?? '')
  pending.delete(form.get('code') ?? '')
  const challenge = createHash('sha256')
    .update(form.get('code_verifier') ?? '')
    .digest('base64url')
  if (request?.challenge !== challenge || request.redirectUri !== form.get('redirect_uri')) {
    return answerJson(res, { error: 'invalid_grant', error_description: 'secret-description' }, 400)
  }
  const nowS = Math.floor(Date.now() / 1000)
  const right = { iss: provider.issuer, aud: 'portaria', sub: 'subject-1', iat: nowS, exp: nowS + 300 }
  const claims = { ...right, ...(request.nonce === null ? {} : { nonce: request.nonce }), ...provider.claims }
  const id_token = await provider.sign(JSON.parse(JSON.stringify(claims)))
  answerJson(res, {
    access_token: 'access-secret',
    token_type: 'Bearer',
    expires_in: 300,
    id_token,
    ...provider.tokenAnswer
  })
}

const metadataOf = ({ issuer, metadata }: FaultyProvider) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
  userinfo_endpoint: `${issuer}/userinfo`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
  ...metadata
})

const readText = async (req: IncomingMessage): Promise<string> => {
  let text = ''
  for await (const chunk of req) text += String(chunk)
  return text
}
