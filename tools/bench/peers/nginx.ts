// nginx checks tokens in a subrequest (auth_request, njs, HS256), counts (limit_req) and forwards, on the gateway's core.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CertificateFiles } from '../../../test/support/certificates.ts'
import { GATEWAY_CORE } from '../processes.ts'
import { startNginxWith } from '../upstream.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const checkScript = (secret: string): string => `
import crypto from 'crypto'

const secret = '${secret}'

function check(r) {
  const bearer = r.headersIn['Authorization']
  if (!bearer || bearer.slice(0, 7) !== 'Bearer ') return r.return(401)
  const parts = bearer.slice(7).split('.')
  if (parts.length !== 3) return r.return(401)
  const signature = crypto.createHmac('sha256', secret).update(parts[0] + '.' + parts[1]).digest('base64url')
  if (signature !== parts[2]) return r.return(401)
  const header = JSON.parse(Buffer.from(parts[0], 'base64url').toString())
  const claims = JSON.parse(Buffer.from(parts[1], 'base64url').toString())
  if (header.alg !== 'HS256' || !(claims.exp > Date.now() / 1000)) return r.return(401)
  if (claims.profiles.indexOf('Admin') < 0) return r.return(403)
  r.headersOut['X-User-Id'] = claims.sub
  r.return(204)
}

export default { check }
`

const config = (folder: string, listen: string, upstreamPort: number): string => `
  js_path ${folder};
  js_import check from check.js;
  limit_req_zone $binary_remote_addr zone=addresses:10m rate=500000r/s;
  map $http_upgrade $connection_header { default upgrade; '' ''; }
  upstream app {
    server 127.0.0.1:${upstreamPort};
    keepalive 128;
    keepalive_requests 100000000;
  }
  server {
    listen ${listen};
    client_max_body_size 0;
    location = /check { internal; js_content check.check; }
    location / {
      limit_req zone=addresses burst=500000 nodelay;
      auth_request /check;
      auth_request_set $user_id $sent_http_x_user_id;
      proxy_set_header X-User-Id $user_id;
      proxy_set_header Authorization '';
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_header;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_max_temp_file_size 0;
      proxy_read_timeout 3600s;
      proxy_pass http://app;
    }
  }
`

const NJS = 'load_module /usr/lib/nginx/modules/ngx_http_js_module.so;'

interface NginxOptions {
  /** Where it forwards to. */
  readonly upstreamPort?: number
  /** It speaks HTTP/2 over TLS with it. */
  readonly certificate?: CertificateFiles
}

export const startNginx = async (
  world: World,
  { upstreamPort = world.upstream.checkedPort, certificate }: NginxOptions = {}
): Promise<Peer> => {
  const secure =
    certificate === undefined
      ? ''
      : ` ssl http2; ssl_certificate ${certificate.certFile}; ssl_certificate_key ${certificate.keyFile}; keepalive_requests 100000000`
  const configFor = (port: number, folder: string) => {
    writeFileSync(join(folder, 'check.js'), checkScript(world.secret))
    return config(folder, `127.0.0.1:${port} backlog=4096${secure}`, upstreamPort)
  }
  const name = 'nginx auth_request + njs + limit_req'
  return { ...(await startNginxWith(world, name, GATEWAY_CORE, configFor, NJS)), checks: true }
}
