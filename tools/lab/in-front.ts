// Proxies in front of the gateway that forward to it.
import { deepEqual, equal, match } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type CertificateFiles, createCertificateAuthority } from '../../test/support/certificates.ts'
import type { World } from '../../test/support/gateway.ts'
import { askHttp2, connectHttp2 } from '../../test/support/http2-client.ts'
import { startNginx } from '../../test/support/nginx.ts'
import { freePort } from '../../test/support/ports.ts'
import { startRawUpstream } from '../../test/support/raw-upstream.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { openPage } from './backend.ts'
import { FORWARD_AUTH } from './forward-auth.ts'
import { caddyVersion, nginxVersion, startCaddy } from './proxies.ts'
import { rollingRestarts } from './rolling-restarts.ts'
import { type Lab, type System, versionOf } from './system.ts'

/** Starts the proxy on the port, before the gateway. */
type StartProxy = (world: World, port: number, files: CertificateFiles) => Promise<unknown>

/** Sends requests through the proxy: the real address, host and identity arrive, and forged ones do not. */
const checkForwarding = async (lab: Lab, recipe: string, start: StartProxy) => {
  const app = await startRawUpstream(lab)
  const { ca, issue } = createCertificateAuthority(lab.folder)
  const port = await freePort()
  const base = `https://127.0.0.1:${port}`
  const env = { TRUST_PROXY: '127.0.0.1', PUBLIC_URL: base }
  const world = await lab.gateway(recipe, { '127.0.0.1:8080': `127.0.0.1:${app.port}` }, env)
  await start(world, port, issue('app'))
  const token = await world.tokenFor({ id: 7 })
  const values = (name: string) => {
    const fields = app.requests.at(-1)?.headers ?? []
    return fields.flatMap(([one, text]) => (one.toLowerCase() === name ? [text] : []))
  }
  const forged = { 'x-forwarded-for': '203.0.113.9', 'x-user-id': '1' }
  const session = await connectHttp2(lab, { port, ca })
  const ask = async (headers: Record<string, string>) =>
    (await askHttp2(session, { ':path': '/app/x?a=1', ':authority': `127.0.0.1:${port}`, ...headers })).status
  equal(await ask({ authorization: `Bearer ${token}`, ...forged }), 200)
  equal(app.requests.at(-1)?.target, '/app/x?a=1')
  deepEqual(values('x-user-id'), ['7'])
  match(values('x-forwarded-for').join(), /127\.0\.0\.1$/)
  deepEqual(values('x-forwarded-host'), [`127.0.0.1:${port}`])
  deepEqual(values('x-forwarded-proto'), ['https'])
  equal(await ask({}), 401)
  const page = await openPage(lab, base, token)
  const shown = await page.goto(`${base}/app/page`)
  equal(shown?.status(), 200)
  deepEqual(values('x-user-id'), ['7'])
  equal(await page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol"), 'h2')
  return ['TLS and HTTP/2 to clients', 'address, host and identity (bearer)', 'session in Chromium']
}

const nginx: System = {
  name: 'nginx in front',
  recipe: 'front-nginx',
  version: nginxVersion,
  check: lab =>
    checkForwarding(lab, 'front-nginx', (world, port, { certFile, keyFile }) => {
      const site = recipeBlock('front-nginx', 'nginx', {
        'listen 443 ': `listen 127.0.0.1:${port} `,
        '127.0.0.1:3000': `127.0.0.1:${world.port}`,
        '127.0.0.1:3001': `127.0.0.1:${world.port}`,
        '/etc/nginx/app.pem': certFile,
        '/etc/nginx/app.key': keyFile
      })
      return startNginx(lab, () => site, port)
    })
}

const haproxy: System = {
  name: 'HAProxy in front',
  recipe: 'front-haproxy',
  programs: { haproxy: 'haproxy' },
  version: () => versionOf('haproxy', '-v'),
  check: lab =>
    checkForwarding(lab, 'front-haproxy', (world, port, { certFile, keyFile }) => {
      const config = recipeBlock('front-haproxy', 'haproxy', {
        'bind :443': 'bind 127.0.0.1:PORT',
        '/etc/haproxy/app.pem': 'HERE/app.pem',
        '127.0.0.1:3000 check port 9000': `127.0.0.1:${world.port}`
      }).replace(/^ *option httpchk.*\n/m, '')
      const both = readFileSync(certFile, 'utf8') + readFileSync(keyFile, 'utf8')
      const files = { 'app.pem': both, 'haproxy.cfg': config }
      return lab.start('haproxy', ['-db', '-f', 'haproxy.cfg'], { port, files })
    })
}

const caddy: System = {
  name: 'Caddy in front',
  recipe: 'front-caddy',
  programs: { caddy: 'caddy' },
  version: caddyVersion,
  check: lab =>
    checkForwarding(lab, 'front-caddy', (world, port, { certFile, keyFile }) => {
      const site = recipeBlock('front-caddy', 'caddyfile', {
        'app.example.org': `https://127.0.0.1:${port}`,
        '127.0.0.1:3000': `127.0.0.1:${world.port}`,
        '/etc/caddy/app.pem': certFile,
        '/etc/caddy/app.key': keyFile
      })
      return startCaddy(lab, site, port, '\tauto_https disable_redirects\n')
    })
}

export const IN_FRONT: readonly System[] = [nginx, rollingRestarts, haproxy, caddy, ...FORWARD_AUTH]
