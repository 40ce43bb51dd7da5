// Starts Caddy, and writes the site of nginx, with the text of recipes.
import { recipeBlock } from '../../test/support/recipe.ts'
import { type Lab, versionOf } from './system.ts'

export const caddyVersion = () => versionOf('caddy', 'version')

export const startCaddy = (lab: Lab, text: string, port: number, settings = '\tauto_https off\n') =>
  lab.start('caddy', ['run', '--config', 'HERE/Caddyfile', '--adapter', 'caddyfile'], {
    port,
    files: { Caddyfile: `{\n\tadmin off\n${settings}}\n${text}` },
    env: { HOME: 'HERE', XDG_DATA_HOME: 'HERE', XDG_CONFIG_HOME: 'HERE' }
  })

export const nginxVersion = (): string => versionOf('nginx', '-v')

/** The site of the recipe for nginx in front, before these gateways and without TLS. */
export const plainSite = (listen: string, gateways: readonly [string, string]): string =>
  recipeBlock('front-nginx', 'nginx', { '127.0.0.1:3000': gateways[0], '127.0.0.1:3001': gateways[1] })
    .replace(/^ *(?:listen .*|ssl_.*|http2 .*)\n/gm, '')
    .replace('server {', `server {\n listen ${listen};`)
