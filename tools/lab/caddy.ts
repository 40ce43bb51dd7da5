// Starts Caddy in the folder of a system, with the text of a recipe.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { firstLine, type Lab } from './system.ts'

export const caddyVersion = () => firstLine('caddy', 'version').split(' ')[0] ?? ''

export const startCaddy = async (lab: Lab, text: string, port: number, settings = '\tauto_https off\n') => {
  writeFileSync(join(lab.folder, 'Caddyfile'), `{\n\tadmin off\n${settings}}\n${text}`)
  const home = { HOME: lab.folder, XDG_DATA_HOME: lab.folder, XDG_CONFIG_HOME: lab.folder }
  await lab.run('caddy', ['run', '--config', join(lab.folder, 'Caddyfile'), '--adapter', 'caddyfile'], port, home)
}
