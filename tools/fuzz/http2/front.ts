// Starts a gateway as a server of HTTP/2, before a backend that takes only what RFC 9112 allows.
import tls from 'node:tls'
import type { Test } from 'tap'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { startGateway } from '../../../test/support/gateway.ts'
import { makeFolder } from '../../../test/support/server-process.ts'
import { startStrictUpstream } from '../strict-upstream.ts'

export type Front = Awaited<ReturnType<typeof startFront>>

export const startFront = async (t: Pick<Test, 'teardown'>) => {
  const backend = await startStrictUpstream(t)
  const folder = makeFolder(t, 'http2')
  const authority = createCertificateAuthority(folder)
  const { certFile, keyFile } = authority.issue('one')
  const { port } = await startGateway(t, {
    config: {
      upstreams: { back: { url: backend.url, preserveHost: true } },
      routes: [{ path: '/*', upstream: 'back', public: true }]
    },
    env: {
      TLS_CERT_FILE: certFile,
      TLS_KEY_FILE: keyFile,
      PUBLIC_URL: 'https://gw.example',
      ALLOWED_HOSTS: '*',
      LOG_LEVEL: 'error'
    }
  })
  const secureContext = tls.createSecureContext({ ca: authority.ca })
  const options = { port, host: '127.0.0.1', servername: 'localhost', secureContext, ALPNProtocols: ['h2'] }
  return { backend, connect: () => tls.connect(options) }
}
