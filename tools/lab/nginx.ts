// Starts nginx in the folder of a system, as the account that runs the lab, with the text of a recipe.
import { recipeBlock } from '../../test/support/recipe.ts'
import { type Lab, versionOf } from './system.ts'

export const nginxVersion = (): string => versionOf('nginx', '-v')

/** The site of the recipe for nginx in front, before these gateways and without TLS. */
export const plainSite = (listen: string, gateways: readonly [string, string]): string =>
  recipeBlock('front-nginx', 'nginx', { '127.0.0.1:3000': gateways[0], '127.0.0.1:3001': gateways[1] })
    .replace(/^ *(?:listen .*|ssl_.*|http2 .*)\n/gm, '')
    .replace('server {', `server {\n listen ${listen};`)

const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(name => `${name}_temp_path HERE/${name};`)
const OWN = 'daemon off;master_process off;pid HERE/pid;events{worker_connections 4096;}'

/** `http` is what stands within `http {}`, with `PORT` for the port; resolves with that when it takes connections. */
export const startNginx = (lab: Lab, http: string, port?: number): Promise<number> =>
  lab.start('nginx', ['-p', 'HERE', '-c', 'HERE/nginx.conf', '-e', 'HERE/log'], {
    files: { 'nginx.conf': `${OWN}http{access_log off;${TEMPORARY.join('')}${http}}` },
    ...(port === undefined ? {} : { port })
  })
