// Starts a container engine of its own, with its data in a folder that is removed at the end.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createServerProcess, makeFolder } from '../../../test/support/server-process.ts'
import { succeeds } from '../../../test/support/until.ts'
import type { Teardown } from '../../teardown.ts'
import { ensurePrograms, goProgram } from '../installed.ts'
import { outputOf } from '../program.ts'
import { versionOf } from '../system.ts'

/** Not in Debian: its docker-compose 1.29 cannot read the file. */
const COMPOSE = { module: 'github.com/docker/compose/v2', version: 'v2.32.4' }

export type Engine = Awaited<ReturnType<typeof startEngine>>

/** Needs root, and Debian's packages or the programs in the path. */
export const startEngine = async (t: Teardown) => {
  ensurePrograms({ dockerd: 'docker.io iptables', debootstrap: 'debootstrap' })
  const composeProgram = await goProgram('docker-compose', COMPOSE.module, COMPOSE.version, '/cmd')
  const folder = makeFolder(t, 'engine')
  // dockerd leaves the host's network namespace mounted there.
  t.teardown(() => spawnSync('umount', [join(folder, 'exec/netns/default')]))
  const socket = `unix://${join(folder, 'docker.sock')}`
  const folders = ['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec')]
  // BuildKit is off, because Docker 20.10 builds without it unless it is asked to.
  const own = { ...process.env, DOCKER_HOST: socket, DOCKER_BUILDKIT: '0' }
  /** The output of a `docker` command; rejects with what it wrote if it fails. */
  const docker = (...words: string[]) => outputOf('docker', words, { cwd: folder, env: own })
  const daemon = createServerProcess({
    command: 'dockerd',
    args: [...folders, '--pidfile', join(folder, 'docker.pid'), '--host', socket],
    isUp: () => succeeds(docker('version'))
  })
  t.teardown(() => daemon.end('SIGTERM'))
  await daemon.start()
  return {
    folder,
    /** Of its parts, as the table names them. */
    version: `Docker ${versionOf('dockerd', '--version')}, Compose ${COMPOSE.version.slice(1)}`,
    docker,
    /** The same for `docker compose`, in the folder of the compose file. */
    compose: (cwd: string, env: Record<string, string>, ...words: string[]) =>
      outputOf(composeProgram, words, { cwd, env: { ...own, ...env } })
  }
}
