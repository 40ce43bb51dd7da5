// docker and skopeo log in to a registry behind the gateway by access token; skopeo pushes an image and fetches it again.
import { equal, match } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { freePort } from '../../test/support/ports.ts'
import { logIn } from './person.ts'
import { firstLine, type Lab, NO_BROWSER, type System } from './system.ts'

const REGISTRY = process.env.PORTARIA_LAB_REGISTRY ?? 'docker-registry'
const SKOPEO = process.env.PORTARIA_LAB_SKOPEO ?? 'skopeo'

const REGISTRY_SETTINGS = (port: number) => `
version: 0.1
log: { level: error, accesslog: { disabled: true } }
storage: { filesystem: { rootdirectory: ./images } }
http: { addr: '127.0.0.1:${port}' }
`

/** Runs a program with text on its stdin; returns its exit code and output. */
const run = async (lab: Lab, program: string, words: readonly string[], input = '') => {
  const env = { ...process.env, HOME: lab.folder, DOCKER_CONFIG: join(lab.folder, 'docker') }
  const child = spawn(program, words, { cwd: lab.folder, env })
  child.stdin.end(input)
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: child.exitCode, said: out + err }
}

/** An image of one empty layer as a folder, in skopeo's form `dir:`. */
const writeImage = (lab: Lab): string => {
  const folder = join(lab.folder, 'image')
  mkdirSync(folder)
  const add = (content: Buffer, mediaType: string) => {
    const digest = createHash('sha256').update(content).digest('hex')
    writeFileSync(join(folder, digest), content)
    return { mediaType, size: content.length, digest: `sha256:${digest}` }
  }
  // Two blocks of zeros: an empty archive (POSIX pax).
  const layer = Buffer.alloc(1024)
  const rootfs = { type: 'layers', diff_ids: [`sha256:${createHash('sha256').update(layer).digest('hex')}`] }
  const config = Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs }))
  const manifest = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: add(config, 'application/vnd.oci.image.config.v1+json'),
    layers: [add(layer, 'application/vnd.oci.image.layer.v1.tar')]
  }
  writeFileSync(join(folder, 'version'), 'Directory Transport Version: 1.1\n')
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest))
  return `dir:${folder}`
}

export const containers: System = {
  name: 'docker login, skopeo with a container registry',
  recipe: 'registries',
  version: () => {
    const docker = /[\d.]+/.exec(firstLine('docker', '--version'))?.[0]
    const skopeo = /[\d.]+/.exec(firstLine(SKOPEO, '--version'))?.[0]
    return `docker ${docker}, skopeo ${skopeo}, ${firstLine(REGISTRY, '--version').split(' ').at(-1)}`
  },
  async check(lab) {
    const port = await freePort()
    writeFileSync(join(lab.folder, 'registry.yml'), REGISTRY_SETTINGS(port))
    await lab.run(REGISTRY, ['serve', 'registry.yml'], port)
    const image = writeImage(lab)
    const plain = ['--insecure-policy', 'copy', '--dest-tls-verify=false', '--src-tls-verify=false']
    const direct = await run(lab, SKOPEO, [...plain, image, `docker://127.0.0.1:${port}/team/direct:1`])
    equal(direct.code, 0, direct.said)
    const world = await lab.gateway('registries', { '127.0.0.1:5000': `127.0.0.1:${port}` })
    const { token } = await logIn(lab, world)
    const through = `127.0.0.1:${world.port}`
    const login = ['login', '--username', 'me', '--password-stdin']
    const docker = await run(lab, 'docker', [...login, through], token)
    match(docker.said, /Login Succeeded/)
    const guessed = await run(lab, 'docker', [...login, through], 'guessed')
    match(guessed.said, /401 Unauthorized|unauthorized/)
    const skopeo = await run(lab, SKOPEO, [...login, '--tls-verify=false', through], token)
    match(skopeo.said, /Login Succeeded/)
    const push = await run(lab, SKOPEO, [...plain, image, `docker://${through}/team/thing:1`])
    equal(push.code, 0, push.said)
    const fetched = await run(lab, SKOPEO, [
      ...plain,
      `docker://${through}/team/thing:1`,
      `dir:${join(lab.folder, 'got')}`
    ])
    equal(fetched.code, 0, fetched.said)
    return [
      'push directly',
      '`docker login` (without an engine), `skopeo login`, push and fetch (basic)',
      'a wrong password refused',
      NO_BROWSER
    ]
  }
}
