// Starts Portaria, HAProxy and nginx as servers of HTTP/2, each before a backend of its own.
import { writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import tls from 'node:tls'
import type { Test } from 'tap'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { startGateway } from '../../../test/support/gateway.ts'
import { freePort } from '../../../test/support/ports.ts'
import { findNginx } from '../../../test/support/provision.ts'
import { makeFolder, startProgram } from '../../../test/support/server-process.ts'
import { type StrictUpstream, startStrictUpstream } from '../strict-upstream.ts'

export interface Front {
  readonly name: 'Portaria' | 'HAProxy' | 'nginx'
  readonly backend: StrictUpstream
  connect(): net.Socket
}

type Teardown = Pick<Test, 'teardown'>

export const startPortaria = async (t: Teardown): Promise<Front> => {
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
  return { name: 'Portaria', backend, connect: () => tls.connect(options) }
}

const HAPROXY = (port: number, backend: number) => `
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
listen front
  bind 127.0.0.1:${port} proto h2
  server one 127.0.0.1:${backend}
`

const NGINX = (port: number, backend: number, folder: string) => `
daemon off; master_process off; pid ${folder}/pid; events {}
http {
  access_log off;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path ${folder}/${name};`).join(' ')}
  upstream back { server 127.0.0.1:${backend}; keepalive 16; }
  server {
    listen 127.0.0.1:${port} http2;
    ignore_invalid_headers off;
    underscores_in_headers on;
    merge_slashes off;
    location / {
      proxy_pass http://back;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_set_header Host $http_host;
    }
  }
}
`

const startPeer = async (t: Teardown, name: Front['name'], start: (port: number, backend: number) => Promise<void>) => {
  const backend = await startStrictUpstream(t)
  const port = await freePort()
  await start(port, backend.port)
  return { name, backend, connect: () => net.connect(port, '127.0.0.1') }
}

export const startHaproxy = (t: Teardown): Promise<Front> =>
  startPeer(t, 'HAProxy', (port, backend) => {
    const folder = makeFolder(t, 'http2')
    writeFileSync(join(folder, 'haproxy.cfg'), HAPROXY(port, backend))
    return startProgram(t, 'haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')], port)
  })

export const startNginx = (t: Teardown): Promise<Front> =>
  startPeer(t, 'nginx', (port, backend) => {
    const folder = makeFolder(t, 'http2')
    const file = join(folder, 'nginx.conf')
    writeFileSync(file, NGINX(port, backend, folder))
    return startProgram(t, findNginx() ?? 'nginx', ['-p', folder, '-c', file, '-e', join(folder, 'log')], port)
  })
