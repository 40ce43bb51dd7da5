// Gives the version of nginx, and the site of a recipe as several systems need it.
import { recipeBlock } from '../../test/support/recipe.ts'
import { versionOf } from './system.ts'

export const nginxVersion = (): string => versionOf('nginx', '-v')

/** The site of the recipe for nginx in front, before these gateways and without TLS. */
export const plainSite = (listen: string, gateways: readonly [string, string]): string =>
  recipeBlock('front-nginx', 'nginx', { '127.0.0.1:3000': gateways[0], '127.0.0.1:3001': gateways[1] })
    .replace(/^ *(?:listen .*|ssl_.*|http2 .*)\n/gm, '')
    .replace('server {', `server {\n listen ${listen};`)
