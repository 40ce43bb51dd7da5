// Builds the image and runs it with podman: `npm run lab -- podman`, as root.
import { equal } from 'node:assert/strict'
import { join } from 'node:path'
import { makeFolder } from '../../../test/support/server-process.ts'
import { until } from '../../../test/support/until.ts'
import { withTeardown } from '../../teardown.ts'
import { type Case, tryInstalling } from '../cases.ts'
import { ensurePrograms } from '../installed.ts'
import { outputOf, stdoutOf } from '../program.ts'
import { versionOf } from '../system.ts'
import { makeNodeImage } from './base-images.ts'
import type { Engine } from './engine.ts'
import { IMAGE, withSecret } from './image-cases.ts'
import { checkOut } from './run.ts'

type Podman = Pick<Engine, 'folder' | 'docker'>

/** Nothing of this machine's own containers; no systemd is needed. */
const WAYS = ['--cgroup-manager=cgroupfs', '--events-backend=file']

const cases: readonly Case<Podman>[] = [
  // RV-122, RV-125
  {
    name: 'Build with podman, from a checkout made under umask 077',
    async run({ docker, folder }) {
      const checkout = join(folder, 'checkout')
      checkOut(checkout)
      await docker('build', '--network', 'host', '--pull=never', '--tag', IMAGE, checkout)
      return 'builds'
    }
  },
  {
    name: 'Run and stop with podman, on a read-only root',
    async run({ docker }) {
      // By default podman raises them, which root of a sandbox may not do.
      const limits = ['--ulimit', 'nofile=4096:4096', '--ulimit', 'nproc=4096:4096']
      const options = ['--read-only', '--network', 'host', '--volume', '/portaria/data', ...limits, ...withSecret]
      const id = (await docker('run', '--detach', ...options, '--env', 'PORT=0', '--env', 'OPS_PORT=0', IMAGE)).trim()
      await until(async () => (await docker('logs', id)).includes('"msg":"listening"'), 'the gateway listens')
      await docker('stop', '--time', '20', id)
      equal((await docker('inspect', '--format', '{{.State.ExitCode}}', id)).trim(), '0')
      return 'listens; `podman stop` ends it with exit status 0'
    }
  }
]

/** Resolves to how many cases did not work. */
export const runPodman = (): Promise<number> =>
  withTeardown(async t => {
    ensurePrograms({ podman: 'podman runc', debootstrap: 'debootstrap' })
    const folder = makeFolder(t, 'podman')
    const places = ['--root', join(folder, 'data'), '--runroot', join(folder, 'run')]
    // What it says while it works is not part of an answer.
    const docker: Engine['docker'] = (...words) =>
      (words[0] === 'logs' ? outputOf : stdoutOf)('podman', [...places, ...WAYS, ...words], { cwd: folder })
    t.teardown(() => docker('rmi', '--all', '--force').catch(() => undefined))
    t.teardown(() => docker('rm', '--all', '--force').catch(() => undefined))
    await makeNodeImage({ folder, docker })
    return tryInstalling(cases, { folder, docker }, `podman ${versionOf('podman', '--version')}`)
  })
