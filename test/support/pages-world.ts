// Starts the whole gateway behind one public address, with a directory to log in to and perhaps a cloud provider.
import type { Test } from 'tap'
import { launchBrowser, type OpenOptions, openPage } from './browser.ts'
import { startGateway, type World, type WorldOptions } from './gateway.ts'
import { type OpenLdap, startOpenLdap } from './openldap.ts'
import { freePort } from './ports.ts'
import { startPostgres } from './postgres.ts'

export interface PagesWorldOptions extends WorldOptions {
  ldap?: Pick<OpenLdap, 'env'>
  /** Of a cloud provider; the callback is at `callbackOf(port)`. */
  port?: number
}

export const callbackOf = (port: number): string => `http://localhost:${port}/auth/oauth/cloudidp/callback`

/** Opens it at `http://localhost:PORT`, which browsers trust as they trust https. */
export const startPagesWorld = async (
  t: Pick<Test, 'teardown'>,
  { ldap, port, env, ...options }: PagesWorldOptions = {}
): Promise<World & { readonly origin: string }> => {
  const listening = port ?? (await freePort())
  const origin = `http://localhost:${listening}`
  const directory = ldap === undefined ? {} : { ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria' }
  const world = await startGateway(t, {
    ...options,
    port: listening,
    env: { PUBLIC_URL: origin, ...directory, ...env }
  })
  return { ...world, origin }
}

/** With all that a page needs: a database, a directory and a browser. */
export const startBrowserWorld = async (t: Test, options: PagesWorldOptions = {}) => {
  const [postgres, ldap, browser] = await Promise.all([startPostgres(t), startOpenLdap(t), launchBrowser(t)])
  const world = await startPagesWorld(t, { postgres, ldap, ...options })
  return {
    ...world,
    postgres,
    ldap,
    browser,
    open: (t: Test, path: string, how?: OpenOptions) => openPage(t, browser, `${world.origin}${path}`, how)
  }
}
