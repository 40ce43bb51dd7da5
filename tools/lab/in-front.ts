// Proxies in front of the gateway that forward to it.
import { deepEqual, equal, match } from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, type IncomingHttpHeaders } from 'node:http2'
import { join } from 'node:path'
import { type CertificateFiles, createCertificateAuthority } from '../../test/support/certificates.ts'
import type { World } from '../../test/support/gateway.ts'
import { freePort } from '../../test/support/ports.ts'
import { startRawUpstream } from '../../test/support/raw-upstream.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { caddyVersion, startCaddy } from './caddy.ts'
import { FORWARD_AUTH } from './forward-auth.ts'
import { nginxVersion, startNginx } from './nginx.ts'
import { rollingRestarts } from './rolling-restarts.ts'
import { firstLine, type Lab, type System } from './system.ts'
import { openPage } from './three-ways.ts'

const TRUST = { TRUST_PROXY: '127.0.0.1' }

/** One request over HTTP/2. */
const askByHttp2 = async (base: string, ca: string, headers: Record<string, string>) => {
  const session = connect(base, { ca })
  try {
    const stream = session.request({ ':path': '/app/x?a=1', ...headers })
    const [answer] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    stream.resume()
    await once(stream, 'close')
    return Number(answer[':status'])
  } finally {
    session.close()
  }
}

interface Certified extends CertificateFiles {
  readonly ca: string
}

/** Sends requests through the proxy: the real address, host and identity arrive, and forged ones do not. */
const checkForwarding = async (
  lab: Lab,
  recipe: string,
  start: (world: World, port: number, files: Certified) => Promise<void>
) => {
  const app = await startRawUpstream(lab)
  const authority = createCertificateAuthority(lab.folder)
  const port = await freePort()
  const base = `https://127.0.0.1:${port}`
  const world = await lab.gateway(recipe, { '127.0.0.1:8080': `127.0.0.1:${app.port}` }, { ...TRUST, PUBLIC_URL: base })
  await start(world, port, { ca: authority.ca, ...authority.issue('app') })
  const token = await world.tokenFor({ id: 7 })
  const values = (name: string) => {
    const fields = app.requests.at(-1)?.headers ?? []
    return fields.flatMap(([one, text]) => (one.toLowerCase() === name ? [text] : []))
  }
  const forged = { 'x-forwarded-for': '203.0.113.9', 'x-user-id': '1' }
  equal(await askByHttp2(base, authority.ca, { authorization: `Bearer ${token}`, ...forged }), 200)
  equal(app.requests.at(-1)?.target, '/app/x?a=1')
  deepEqual(values('x-user-id'), ['7'])
  match(values('x-forwarded-for').join(), /127\.0\.0\.1$/)
  deepEqual(values('x-forwarded-host'), [`127.0.0.1:${port}`])
  deepEqual(values('x-forwarded-proto'), ['https'])
  equal(await askByHttp2(base, authority.ca, {}), 401)
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
    checkForwarding(lab, 'front-nginx', async (world, port, { certFile, keyFile }) => {
      const site = recipeBlock('front-nginx', 'nginx', {
        'listen 443 ': `listen 127.0.0.1:${port} `,
        '127.0.0.1:3000': `127.0.0.1:${world.port}`,
        '127.0.0.1:3001': `127.0.0.1:${world.port}`,
        '/etc/nginx/app.pem': certFile,
        '/etc/nginx/app.key': keyFile
      })
      await startNginx(lab, site, port)
    })
}

const haproxy: System = {
  name: 'HAProxy in front',
  recipe: 'front-haproxy',
  version: () => /version ([^ ]+)/.exec(firstLine('haproxy', '-v'))?.[1] ?? '',
  check: lab =>
    checkForwarding(lab, 'front-haproxy', async (world, port, { certFile, keyFile }) => {
      const both = join(lab.folder, 'app.pem')
      writeFileSync(both, readFileSync(certFile, 'utf8') + readFileSync(keyFile, 'utf8'))
      const text = recipeBlock('front-haproxy', 'haproxy', {
        'bind :443': `bind 127.0.0.1:${port}`,
        '/etc/haproxy/app.pem': both,
        '127.0.0.1:3000 check port 9000': `127.0.0.1:${world.port}`
      }).replace(/^ *option httpchk.*\n/m, '')
      writeFileSync(join(lab.folder, 'haproxy.cfg'), text)
      await lab.run('haproxy', ['-db', '-f', join(lab.folder, 'haproxy.cfg')], port)
    })
}

const caddy: System = {
  name: 'Caddy in front',
  recipe: 'front-caddy',
  version: caddyVersion,
  check: lab =>
    checkForwarding(lab, 'front-caddy', async (world, port, { certFile, keyFile }) => {
      const text = recipeBlock('front-caddy', 'caddyfile', {
        'app.example.org': `https://127.0.0.1:${port}`,
        '127.0.0.1:3000': `127.0.0.1:${world.port}`,
        '/etc/caddy/app.pem': certFile,
        '/etc/caddy/app.key': keyFile
      })
      await startCaddy(lab, text, port, '\tauto_https disable_redirects\n')
    })
}

export const IN_FRONT: readonly System[] = [nginx, rollingRestarts, haproxy, caddy, ...FORWARD_AUTH]
