// Starts a container engine of its own, with its data in a folder that is removed at the end.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createServerProcess, makeFolder } from '../../../test/support/server-process.ts'
import { ensurePrograms, goProgram } from '../installed.ts'
import type { Teardown } from '../table.ts'

/** Not in Debian: its docker-compose 1.29 cannot read the file. */
const COMPOSE = { module: 'github.com/docker/compose/v2', version: 'v2.32.4' }

const PACKAGES = { dockerd: ['docker.io', 'iptables'], debootstrap: ['debootstrap'] }

export interface Engine {
  readonly folder: string
  readonly version: string
  /** The output of a `docker` command; rejects with what it wrote if it fails. */
  docker(...words: string[]): Promise<string>
  /** The same for `docker compose`, in the folder of the compose file. */
  compose(cwd: string, env: Record<string, string>, ...words: string[]): Promise<string>
}

const isUp = (docker: Engine['docker']): Promise<boolean> =>
  docker('version').then(
    () => true,
    () => false
  )

/** Needs root, and Debian's packages or the programs in the path. */
export const startEngine = async (t: Teardown): Promise<Engine> => {
  ensurePrograms(Object.keys(PACKAGES), PACKAGES)
  const composeProgram = await goProgram('docker-compose', COMPOSE.module, COMPOSE.version, '/cmd')
  const folder = makeFolder(t, 'engine')
  // dockerd leaves the host's network namespace mounted there.
  t.teardown(() => spawnSync('umount', [join(folder, 'exec/netns/default')]))
  const socket = `unix://${join(folder, 'docker.sock')}`
  const folders = ['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec')]
  // BuildKit is off, because Docker 20.10 builds without it unless it is asked to.
  const run = async (program: string, words: string[], cwd: string, env: Record<string, string> = {}) => {
    const whole = { ...process.env, DOCKER_HOST: socket, DOCKER_BUILDKIT: '0', ...env }
    const { stdout, stderr } = await promisify(execFile)(program, words, { cwd, env: whole, maxBuffer: 64 * 2 ** 20 })
    return stdout + stderr
  }
  const docker: Engine['docker'] = (...words) => run('docker', words, folder)
  const daemon = createServerProcess({
    command: 'dockerd',
    args: [...folders, '--pidfile', join(folder, 'docker.pid'), '--host', socket],
    isUp: () => isUp(docker)
  })
  t.teardown(() => daemon.end('SIGTERM'))
  await daemon.start()
  return {
    folder,
    version: /\d+\.\d+\.\d+/.exec(execFileSync('dockerd', ['--version'], { encoding: 'utf8' }))?.[0] ?? '',
    docker,
    compose: (cwd, env, ...words) => run(composeProgram, words, cwd, env)
  }
}

/** As the table names it. */
export const COMPOSE_VERSION = COMPOSE.version.slice(1)
