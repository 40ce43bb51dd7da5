// Declares the part of the package `oidc-provider` that the demo and the tests use.
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  export class Provider {
    constructor(issuer: string, configuration: Record<string, unknown>)
    readonly Grant: new (data: {
      clientId: string
      accountId: string
    }) => {
      addOIDCScope(scope: string): void
      save(): Promise<string>
    }
    callback(): (req: IncomingMessage, res: ServerResponse) => void
    interactionDetails(req: IncomingMessage, res: ServerResponse): Promise<unknown>
    interactionFinished(req: IncomingMessage, res: ServerResponse, result: Record<string, unknown>): Promise<void>
  }

  export default Provider
}

/** Where it keeps everything by default. */
declare module 'oidc-provider/lib/adapters/memory_adapter.js' {
  export const createMemoryAdapter: () => (kind: string) => object
}
