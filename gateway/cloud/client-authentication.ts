// Sends the client secret in the way this provider accepts: in the Authorization field or in the body.
import type { ProviderMetadata } from './provider-metadata.ts'

/** Ways to authenticate at the token endpoint (RFC 6749 §2.3). */
export interface ClientAuthentication<Way> {
  /** Both methods, the likelier one first; once one has worked, only that one. */
  candidates(metadata: ProviderMetadata): readonly [Way, ...Way[]]
  worked(way: Way): void
}

export interface Ways<Way> {
  /** For a client without a secret. */
  readonly none: Way
  /** HTTP Basic. */
  readonly basic: Way
  /** In the body of the request, never in a URL. */
  readonly post: Way
}

// Providers differ in how they accept the secret, and a client registration often allows only one way.
export const createClientAuthentication = <Way>(hasSecret: boolean, ways: Ways<Way>): ClientAuthentication<Way> => {
  const { none, basic, post } = ways
  let proven = hasSecret ? undefined : none
  return {
    candidates: ({ token_endpoint_auth_methods_supported: methods = ['client_secret_basic'] }) => {
      if (proven !== undefined) return [proven]
      const first = methods.find(method => method === 'client_secret_basic' || method === 'client_secret_post')
      return first === 'client_secret_post' ? [post, basic] : [basic, post]
    },
    worked: way => {
      proven = way
    }
  }
}
