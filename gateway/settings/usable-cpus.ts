// Counts the CPUs that this process may use, so that `WORKERS=auto` starts no more workers than a container can run.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'

/**
 * Node.js itself respects a quota of cgroup v2. It does not find one of v1, whose path inside a container is another.
 * @param cgroup a folder with the files of cgroup v1's controller `cpu`, if there are any
 */
export const usableCpus = (cgroup = '/sys/fs/cgroup/cpu'): number => {
  const quota = readNumber(cgroup, 'cpu.cfs_quota_us')
  const period = readNumber(cgroup, 'cpu.cfs_period_us')
  // No quota is -1.
  const allowed = quota > 0 && period > 0 ? Math.floor(quota / period) : Number.POSITIVE_INFINITY
  return Math.max(1, Math.min(availableParallelism(), allowed))
}

const readNumber = (folder: string, name: string): number => {
  try {
    return Number(readFileSync(join(folder, name), 'utf8'))
  } catch {
    return 0
  }
}
