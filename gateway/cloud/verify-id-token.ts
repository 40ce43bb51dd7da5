// Verifies ID tokens with the discovered keys (OpenID Connect Core §3.1.3.7).
import type { JSONWebKeySet } from 'jose'
import * as oidc from 'openid-client'
import { keyIdOf } from '../tokens/foreign-token.ts'
import { boundedMap } from '../values/bounded-map.ts'
import { asOAuthFailure, OAuthFailure } from './failure.ts'
import { tenantIssuer } from './id-token.ts'
import type { Claims } from './person.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { isTemplate, type ProviderMetadata } from './provider-metadata.ts'

const MAX_ISSUERS = 100

type VerifyIdToken = (idToken: string | undefined, nonce: string, metadata: ProviderMetadata) => Promise<Claims>

export const createIdTokenVerifier = (clientId: string, keysOf: ProviderKeys): VerifyIdToken => {
  let keptFor: { metadata: ProviderMetadata; keys: JSONWebKeySet } | undefined
  const configs = boundedMap<string, oidc.Configuration>(MAX_ISSUERS)

  // The library keeps the keys that it was given, so a new set of keys needs a new instance.
  const configOf = (metadata: ProviderMetadata, issuer: string, keys: JSONWebKeySet): oidc.Configuration => {
    if (keptFor?.metadata !== metadata || keptFor.keys !== keys) configs.clear()
    keptFor = { metadata, keys }
    const kept = configs.get(issuer)
    if (kept !== undefined) return kept
    const config = new oidc.Configuration({ ...metadata, issuer }, clientId, {}, oidc.None())
    // `jwks_uri` has been checked, and its response is available.
    oidc.allowInsecureRequests(config)
    config[oidc.customFetch] = async () => Response.json(keys)
    oidc.useIdTokenResponseType(config)
    configs.set(issuer, config)
    return config
  }

  return async (idToken, nonce, metadata) => {
    if (idToken === undefined) throw new OAuthFailure('id-token-missing', 'the provider sent no ID token')
    const issuer = isTemplate(metadata) ? tenantIssuer(idToken, clientId, metadata.issuer) : metadata.issuer
    const keys = await keysOf(metadata, await keyIdOf(idToken))
    const carrier = new URL('https://id-token.invalid')
    carrier.hash = new URLSearchParams({ id_token: idToken }).toString()
    try {
      return await oidc.implicitAuthentication(configOf(metadata, issuer, keys), carrier, nonce)
    } catch (error) {
      throw asOAuthFailure(error, 'id-token-invalid')
    }
  }
}
