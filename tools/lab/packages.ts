// Installs missing programs of a system if running as root on Debian, or names their packages.
import { spawnSync } from 'node:child_process'
import { install, isProgram } from '../../test/support/provision.ts'
import { say } from './table.ts'

const isOnPath = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' }).status === 0

/**
 * @param packages Debian's packages by program
 * @throws Error that names what is still missing.
 */
export const ensurePrograms = (
  programs: readonly string[],
  packages: Readonly<Record<string, readonly string[]>>
): void => {
  const missing = () => programs.filter(program => !isOnPath(program))
  if (missing().length === 0) return
  const wanted = [...new Set(missing().flatMap(program => packages[program] ?? [program]))]
  if (process.getuid?.() === 0 && isProgram('/usr/bin/apt-get')) install(wanted, say)
  const still = missing()
  if (still.length === 0) return
  const named = still.map(program => `${program} (Debian: ${(packages[program] ?? [program]).join(' ')})`)
  throw new Error(`these programs are needed: ${named.join(', ')}`)
}
