// Caches the provider's signing keys, and fetches them again when a token names an unknown one.
import type { JSONWebKeySet } from 'jose'
import { isRecord } from '../values/records.ts'
import { asOAuthFailure, OAuthFailure } from './failure.ts'
import { isAllowedAddress, type ProviderFetch } from './provider-fetch.ts'
import { type ProviderMetadata, readJson } from './provider-metadata.ts'

const KEEP_MS = 5 * 60 * 1000
/** Anyone can send tokens, and they can name any key. */
const UNKNOWN_KEY_PAUSE_MS = 10_000
const MAX_KEYS = 200

/** The provider's key set, the same object until a new one is read. Throws OAuthFailure. */
export type ProviderKeys = (metadata: ProviderMetadata, keyId: string | undefined) => Promise<JSONWebKeySet>

export const createProviderKeys = (fetch: ProviderFetch, insecure: boolean, now: () => number): ProviderKeys => {
  let known: { readonly uri: string; readonly keys: JSONWebKeySet; readonly readAt: number } | undefined
  let asking: Promise<JSONWebKeySet> | undefined
  let unknownKeyAskedAt = Number.NEGATIVE_INFINITY

  const ask = async (uri: string): Promise<JSONWebKeySet> => {
    try {
      const readAt = now()
      const keys = await readKeys(uri, fetch)
      known = { uri, keys, readAt }
      return keys
    } finally {
      asking = undefined
    }
  }
  return async ({ jwks_uri: uri }, keyId) => {
    if (uri === undefined) throw new OAuthFailure('provider-metadata', 'the provider publishes no keys')
    if (!isAllowedAddress(uri, insecure)) throw new OAuthFailure('provider-metadata', 'jwks_uri is not https')
    const isCurrent = known?.uri === uri && now() - known.readAt < KEEP_MS
    if (known === undefined || !isCurrent) {
      asking ??= ask(uri)
      return asking
    }
    if (keyId === undefined || known.keys.keys.some(({ kid }) => kid === keyId)) return known.keys
    if (asking !== undefined) return asking
    if (now() - unknownKeyAskedAt < UNKNOWN_KEY_PAUSE_MS) return known.keys
    unknownKeyAskedAt = now()
    asking = ask(uri)
    return asking
  }
}

const readKeys = async (uri: string, fetch: ProviderFetch): Promise<JSONWebKeySet> => {
  try {
    const response = await fetch(uri, {
      method: 'GET',
      headers: { accept: 'application/json, application/jwk-set+json' }
    })
    if (response.status !== 200) throw new OAuthFailure('provider-error', `jwks_uri responded with ${response.status}`)
    const { keys } = await readJson(response)
    if (!Array.isArray(keys) || keys.length > MAX_KEYS) throw new OAuthFailure('provider-nonsense', 'no usable key set')
    return {
      keys: keys.filter((key): key is JSONWebKeySet['keys'][number] => isRecord(key) && typeof key.kty === 'string')
    }
  } catch (error) {
    throw asOAuthFailure(error, 'provider-nonsense')
  }
}
