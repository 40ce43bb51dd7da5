// Fetches from the provider within limits of time and size, and follows no redirect to another address.
import { isLoopbackHost } from '../values/addresses.ts'
import { OAuthFailure } from './failure.ts'

const MAX_BODY_BYTES = 1024 * 1024

/** The part of `fetch` that openid-client uses. */
export type ProviderFetch = (url: string, options: ProviderRequest) => Promise<Response>

interface ProviderRequest {
  readonly method: string
  readonly headers: Record<string, string>
  readonly body?: URLSearchParams | undefined
}

interface ProviderFetchOptions {
  /** Whether plain http is allowed beyond loopback (CLOUDIDP_INSECURE). */
  readonly insecure: boolean
  /** Time limit of one response, up to its last byte. */
  readonly timeoutMs: number
  /** Aborts all requests of one login. */
  readonly signal?: AbortSignal
}

/** Whether a provider's URL may be used: https, or http on this machine or if the operator has allowed it. */
export const isAllowedAddress = (address: string, insecure: boolean): boolean => {
  const url = URL.parse(address)
  if (url === null || url.username !== '' || url.password !== '') return false
  if (url.protocol === 'https:') return true
  return url.protocol === 'http:' && (insecure || isLoopbackHost(url.hostname))
}

/**
 * A fetch that returns a redirect instead of following it, reads at most 1 MiB (counted after decompression) and gives up
 * after `timeoutMs`. Throws OAuthFailure, or the error of the network.
 */
export const createProviderFetch =
  ({ insecure, timeoutMs, signal }: ProviderFetchOptions): ProviderFetch =>
  async (address, request) => {
    if (!isAllowedAddress(address, insecure)) {
      throw new OAuthFailure('provider-metadata', 'the provider uses an address without https')
    }
    const ends = signal === undefined ? [] : [signal]
    const response = await fetch(address, {
      method: request.method,
      headers: { ...request.headers, 'accept-encoding': 'identity' },
      body: request.body ?? null,
      redirect: 'manual',
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...ends])
    })
    const { status } = response
    const body = await readBounded(response)
    // The body is now decoded, so its length may have changed.
    const headers = new Headers(response.headers)
    for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) headers.delete(name)
    return new Response(status === 204 || status === 205 || status === 304 ? null : body, { status, headers })
  }

const readBounded = async (response: Response): Promise<Uint8Array<ArrayBuffer>> => {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength
    // Leaving the loop cancels the body and closes the connection.
    if (bytes > MAX_BODY_BYTES)
      throw new OAuthFailure('provider-nonsense', `a response of more than ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return new Uint8Array(Buffer.concat(chunks))
}

/** Settles with the work, or after `ms` at the latest. */
export const withDeadline = <T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
  const signal = AbortSignal.timeout(ms)
  const late = new Promise<never>((_, reject) => {
    const giveUp = () => reject(new OAuthFailure('provider-timeout', 'the provider took too long'))
    signal.addEventListener('abort', giveUp, { once: true })
  })
  return Promise.race([work(signal), late])
}
