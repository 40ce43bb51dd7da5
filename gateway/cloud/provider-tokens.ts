// Verifies ID tokens and logout tokens with the provider's published keys (OpenID Connect Core §10.1).
import type { JWK, JWTPayload, JWTVerifyOptions } from 'jose'
import { JWKSMultipleMatchingKeys, JWKSNoMatchingKey, JWSSignatureVerificationFailed } from 'jose/errors'
import { createLocalJWKSet } from 'jose/jwks/local'
import { jwtVerify } from 'jose/jwt/verify'
import { isRecord } from '../values/records.ts'
import { asOAuthFailure, OAuthFailure } from './failure.ts'
import { CLOCK_TOLERANCE_S, tenantIssuer } from './id-token.ts'
import type { ProviderFetch } from './provider-fetch.ts'
import { isTemplate, type ProviderMetadata, readJson } from './provider-metadata.ts'

const KEEP_MS = 5 * 60 * 1000
/** Anyone can send tokens, and they can name any key. */
const PAUSE_MS = 10_000
const MAX_KEYS = 200
/** Unsigned, or signed with a secret: neither proves who issued the token. */
const NOT_ASYMMETRIC = /^(?:none|HS\d+)$/

interface ProviderToken {
  /** Issued by this provider for this client, and valid now; `iat` and `exp` are there. */
  readonly claims: JWTPayload
  readonly typ: string | undefined
  /** The tenant's own issuer if the metadata contain a template. */
  readonly issuer: string
}

/** Throws OAuthFailure if the keys cannot be read, otherwise jose's error about the token. */
export type VerifyProviderToken = (token: string, metadata: ProviderMetadata) => Promise<ProviderToken>

type Keys = ReturnType<typeof createLocalJWKSet>

interface VerifierOptions {
  readonly clientId: string
  readonly fetch: ProviderFetch
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export const createTokenVerifier = ({ clientId, fetch, now }: VerifierOptions): VerifyProviderToken => {
  let known: { readonly uri: string; readonly published: PublishedKeys } | undefined

  return async (token, metadata) => {
    const uri = metadata.jwks_uri
    if (uri === undefined) throw new OAuthFailure('provider-metadata', 'the provider publishes no keys')
    if (known?.uri !== uri) known = { uri, published: publishedKeys(uri, fetch) }
    const { published } = known
    const issuer = isTemplate(metadata) ? tenantIssuer(token, clientId, metadata.issuer) : metadata.issuer
    const announced = metadata.id_token_signing_alg_values_supported ?? ['RS256']
    const options: JWTVerifyOptions = {
      issuer,
      audience: clientId,
      algorithms: announced.filter(algorithm => !NOT_ASYMMETRIC.test(algorithm)),
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(now()),
      requiredClaims: ['iat', 'exp']
    }
    const keys = await published.current()
    try {
      return { ...(await verify(token, keys, options)), issuer }
    } catch (error) {
      // A provider may have replaced its keys; its tokens need not name one.
      if (!(error instanceof JWKSNoMatchingKey || error instanceof JWSSignatureVerificationFailed)) throw error
      const newer = await published.newerThan(keys)
      if (newer === undefined) throw error
      return { ...(await verify(token, newer, options)), issuer }
    }
  }
}

type PublishedKeys = ReturnType<typeof publishedKeys>

const publishedKeys = (uri: string, fetch: ProviderFetch) => {
  const url = URL.parse(uri)
  if (url === null) throw new OAuthFailure('provider-metadata', 'jwks_uri is not a URL')
  let known: { readonly keys: Keys; readonly readAt: number } | undefined
  let reading: Promise<Keys> | undefined
  let askedAgainAt = Number.NEGATIVE_INFINITY
  const read = async () => {
    const keys = await readKeys(url.href, fetch)
    known = { keys, readAt: performance.now() }
    return keys
  }
  const readOnce = () => {
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }
  return {
    /** At most five minutes old. */
    current: async () => (known !== undefined && performance.now() - known.readAt < KEEP_MS ? known.keys : readOnce()),
    /** What was read after these: by another token, or now, but at most every ten seconds; otherwise undefined. */
    async newerThan(used: Keys): Promise<Keys | undefined> {
      if (reading !== undefined) return reading
      if (known?.keys !== used) return known?.keys
      if (performance.now() - askedAgainAt < PAUSE_MS) return undefined
      askedAgainAt = performance.now()
      return readOnce()
    }
  }
}

const readKeys = async (address: string, fetch: ProviderFetch): Promise<Keys> => {
  try {
    const headers = { accept: 'application/json, application/jwk-set+json' }
    const response = await fetch(address, { method: 'GET', headers })
    if (response.status !== 200) throw new OAuthFailure('provider-error', `jwks_uri responded with ${response.status}`)
    const { keys } = await readJson(response)
    if (!Array.isArray(keys) || keys.length > MAX_KEYS) throw new OAuthFailure('provider-nonsense', 'no usable key set')
    return createLocalJWKSet({ keys: keys.filter(isRecord) as unknown as JWK[] })
  } catch (error) {
    throw asOAuthFailure(error, 'provider-nonsense')
  }
}

const verify = async (token: string, keys: Keys, options: JWTVerifyOptions) => {
  try {
    return verified(await jwtVerify(token, keys, options))
  } catch (error) {
    if (!(error instanceof JWKSMultipleMatchingKeys)) throw error
    for await (const key of error) {
      try {
        return verified(await jwtVerify(token, key, options))
      } catch (other) {
        if (!(other instanceof JWSSignatureVerificationFailed)) throw other
      }
    }
    throw new JWSSignatureVerificationFailed()
  }
}

const verified = ({ payload, protectedHeader }: { payload: JWTPayload; protectedHeader: { typ?: string } }) => ({
  claims: payload,
  typ: protectedHeader.typ
})
