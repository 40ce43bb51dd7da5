// An nginx upstream answers 1 KB on the load core: on one port to identified requests only, with TLS on another, on a third to all.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { nginxConfig } from '../../test/support/nginx.ts'
import { freePort } from '../../test/support/ports.ts'
import { makeFolder } from '../../test/support/server-process.ts'
import type { Teardown } from '../teardown.ts'
import { LOAD_CORE, startConfigured } from './processes.ts'
import { SUBJECT } from './tokens.ts'

export const BODY_BYTES = 1024
/** Answers the 1 KB body. */
export const BENCH_PATH = '/api/bench'
/** Answers the `x-user-id` that arrived, in angle brackets. */
export const WHO_PATH = '/api/who'

export type Upstream = Awaited<ReturnType<typeof startUpstream>>

/** One worker that serves many connections for long. */
const MAIN = `
worker_processes 1;
worker_rlimit_nofile 20000;
${process.getuid?.() === 0 ? 'user root;' : ''}
error_log stderr error;
events { worker_connections 19900; }`
const KEPT = 'keepalive_requests 100000000; keepalive_timeout 300s;'

/** Starts nginx with what `http` returns for its port and folder. */
export const startNginxWith = (
  t: Teardown,
  name: string,
  core: number,
  http: (port: number, folder: string) => string,
  modules = ''
) =>
  startConfigured(t, {
    name,
    core,
    command: 'nginx',
    config: (port, folder) => nginxConfig(folder, `${KEPT}\n${http(port, folder)}`, modules + MAIN),
    args: (file, folder) => ['-p', folder, '-c', file]
  })

const server = (listen: string, check: string): string => `
  server {
    listen 127.0.0.1:${listen};
    location ${WHO_PATH} { return 200 "<$http_x_user_id>"; }
    location / { ${check} return 200 "${'portaria'.repeat(BODY_BYTES / 8)}"; }
  }
`

export const startUpstream = async (t: Teardown) => {
  const [checkedPort, tlsPort] = [await freePort(), await freePort()]
  const folder = makeFolder(t, 'authority')
  const { caFile, issue } = createCertificateAuthority(folder)
  const { certFile, keyFile } = issue('localhost')
  const pemFile = join(folder, 'both.pem')
  writeFileSync(pemFile, readFileSync(certFile, 'utf8') + readFileSync(keyFile, 'utf8'))
  const check = `if ($http_x_user_id != "${SUBJECT}") { return 418; }`
  const tls = `${tlsPort} ssl backlog=4096; ssl_certificate ${certFile}; ssl_certificate_key ${keyFile}`
  const { port: openPort } = await startNginxWith(t, 'upstream nginx', LOAD_CORE, port => {
    const servers = [
      server(`${checkedPort} backlog=4096`, check),
      server(tls, check),
      server(`${port} backlog=4096`, '')
    ]
    return `default_type text/plain;\n${servers.join('')}`
  })
  return {
    /** Refuses (418) whatever arrives without the identity of the good token: a peer that forgets it shows at once. */
    checkedPort,
    /** The same with TLS and `certificate`, by the authority in `caFile`. */
    tlsPort,
    caFile,
    /** For `localhost`, also for peers that speak TLS; `pemFile`: certificate and key in one file, for HAProxy. */
    certificate: { certFile, keyFile, pemFile },
    /** The gateway's settings for it. */
    tlsEnv: { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile },
    /** For peers that check nothing. */
    openPort
  }
}
