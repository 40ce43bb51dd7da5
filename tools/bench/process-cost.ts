// CPU time and resident memory of a process and all its descendants, read from /proc: nothing inside them takes part.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))

/** Fields of /proc/PID/stat after the command name, which may hold blanks and parentheses (proc(5)). */
const stat = (pid: number): string[] | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

const USER = 11
const SYSTEM = 12
const REAPED_USER = 13
const REAPED_SYSTEM = 14

const childrenOf = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap(thread =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
    )
  } catch {
    return []
  }
}

const processTree = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(processTree)]

/** User and system time in microseconds, of living and reaped processes. Resolution: one tick, 10 ms as a rule. */
export const cpuMicros = (pid: number): number => {
  const ticks = processTree(pid)
    .map(stat)
    .reduce((sum, fields) => {
      if (fields === undefined) return sum
      return (
        sum + [USER, SYSTEM, REAPED_USER, REAPED_SYSTEM].reduce((all, field) => all + Number(fields[field] ?? 0), 0)
      )
    }, 0)
  return (ticks * 1_000_000) / ticksPerSecond
}

/** Resident set in bytes; pages shared between processes of a tree count for each. */
export const residentBytes = (pid: number): number =>
  processTree(pid).reduce((sum, each) => {
    try {
      const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${each}/status`, 'utf8'))?.[1]
      return sum + Number(kilobytes ?? 0) * 1024
    } catch {
      return sum
    }
  }, 0)

/** Watches the resident set until stopped; `stop()` returns the highest seen, in bytes. */
export const watchResident = (pid: number, everyMs = 50): { stop(): number } => {
  let peak = residentBytes(pid)
  const timer = setInterval(() => {
    peak = Math.max(peak, residentBytes(pid))
  }, everyMs)
  return {
    stop: () => {
      clearInterval(timer)
      return Math.max(peak, residentBytes(pid))
    }
  }
}
