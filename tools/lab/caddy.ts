// Starts Caddy in the folder of a system, with the text of a recipe.
import { type Lab, versionOf } from './system.ts'

export const caddyVersion = () => versionOf('caddy', 'version')

export const startCaddy = (lab: Lab, text: string, port: number, settings = '\tauto_https off\n') =>
  lab.start('caddy', ['run', '--config', 'HERE/Caddyfile', '--adapter', 'caddyfile'], {
    port,
    files: { Caddyfile: `{\n\tadmin off\n${settings}}\n${text}` },
    env: { HOME: 'HERE', XDG_DATA_HOME: 'HERE', XDG_CONFIG_HOME: 'HERE' }
  })
