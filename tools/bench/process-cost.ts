// CPU time and resident memory of a process and all its descendants, read from /proc: nothing inside them takes part.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { childrenOf, memoryKb } from '../../test/support/server-process.ts'

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))

/** Fields of /proc/PID/stat after the command name, which may hold blanks and parentheses (proc(5)); none once it has ended. */
const stat = (pid: number): string[] => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

/** User and system time, of the process and of its children that have ended. */
const TIMES = [11, 12, 13, 14]

const processTree = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(processTree)]

/** User and system time in microseconds, of living and reaped processes. Resolution: one tick, 10 ms as a rule. */
export const cpuMicros = (pid: number): number => {
  const ticks = processTree(pid)
    .map(stat)
    .flatMap(fields => TIMES.map(field => Number(fields[field] ?? 0)))
  return (ticks.reduce((sum, one) => sum + one, 0) * 1_000_000) / ticksPerSecond
}

/** Resident set in bytes; pages shared between processes of a tree count for each. */
export const residentBytes = (pid: number): number =>
  processTree(pid).reduce((sum, each) => sum + memoryKb(each, 'VmRSS') * 1024, 0)

const WATCH_EVERY_MS = 50

/** Watches the resident set until stopped; `stop()` returns the highest seen, in bytes. */
export const watchResident = (pid: number): { stop(): number } => {
  let peak = residentBytes(pid)
  const look = () => {
    peak = Math.max(peak, residentBytes(pid))
  }
  const timer = setInterval(look, WATCH_EVERY_MS)
  return {
    stop() {
      clearInterval(timer)
      look()
      return peak
    }
  }
}
