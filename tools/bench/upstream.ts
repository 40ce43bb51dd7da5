// An nginx upstream answers 1 KB on the load core: on one port to identified requests only, with TLS on another, on a third to all.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../test/support/certificates.ts'
import { freePort } from '../../test/support/ports.ts'
import { LOAD_CORE, startListening } from './processes.ts'
import { SUBJECT } from './tokens.ts'

export const BODY_BYTES = 1024
/** Answers the 1 KB body. */
export const BENCH_PATH = '/api/bench'
/** Answers a megabyte. */
export const LARGE_PATH = '/api/large'
const LARGE_BYTES = 1024 * 1024
/** Answers the `x-user-id` that arrived, in angle brackets. */
export const WHO_PATH = '/api/who'

export interface Upstream {
  /** Refuses (418) whatever arrives without the identity of the good token: a peer that forgets it shows at once. */
  readonly checkedPort: number
  /** The same with TLS; its certificate for `localhost` is by the authority in `caFile`. */
  readonly tlsPort: number
  readonly caFile: string
  /** For peers that check nothing. */
  readonly openPort: number
}

/** Beginning of every nginx configuration here: one worker, nothing written to disk but what the folder holds. */
export const nginxPreamble = (folder: string, modules: readonly string[] = []): string => `
${modules.map(path => `load_module ${path};`).join('\n')}
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
${process.getuid?.() === 0 ? 'user root;' : ''}
pid ${folder}/nginx.pid;
error_log stderr error;
events { worker_connections 19900; }
`

export const nginxHttpPreamble = (folder: string): string => `
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  keepalive_requests 100000000;
  keepalive_timeout 300s;
`

const server = (folder: string, listen: string, check: string): string => `
  server {
    listen 127.0.0.1:${listen};
    location ${WHO_PATH} { return 200 "<$http_x_user_id>"; }
    location ${LARGE_PATH} { ${check} alias ${folder}/large; }
    location / { ${check} return 200 "${'portaria'.repeat(BODY_BYTES / 8)}"; }
  }
`

export const startUpstream = async (
  folder: string,
  defer: (action: () => Promise<unknown>) => void
): Promise<Upstream> => {
  const checkedPort = await freePort()
  const tlsPort = await freePort()
  const authority = createCertificateAuthority(folder)
  const { certFile, keyFile } = authority.issue('localhost')
  const check = `if ($http_x_user_id != "${SUBJECT}") { return 418; }`
  const tls = `${tlsPort} ssl backlog=4096; ssl_certificate ${certFile}; ssl_certificate_key ${keyFile}`
  writeFileSync(join(folder, 'large'), Buffer.alloc(LARGE_BYTES, 'portaria'))
  const file = join(folder, 'nginx.conf')
  const config = (openPort: number) => `${nginxPreamble(folder)}
http {
  ${nginxHttpPreamble(folder)}
  default_type text/plain;
  ${server(folder, `${checkedPort} backlog=4096`, check)}
  ${server(folder, tls, check)}
  ${server(folder, `${openPort} backlog=4096`, '')}
}
`
  const { port: openPort } = await startListening({ defer }, port => {
    writeFileSync(file, config(port))
    return { name: 'upstream nginx', core: LOAD_CORE, command: 'nginx', args: ['-p', folder, '-c', file] }
  })
  return { checkedPort, tlsPort, caFile: authority.caFile, openPort }
}
