// Stops a process from a point in time on for so many milliseconds, also on a busy machine, and says how long it was stopped.
import { spawnSync } from 'node:child_process'

const [pid = 0, atEpochMs = 0, frozenMs = 0] = process.argv.slice(2).map(Number)
// Ahead of everything else that wants a core. Only root may; else the time that is printed tells.
spawnSync('chrt', ['--fifo', '--pid', '50', `${process.pid}`])
const pause = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

pause(atEpochMs - Date.now())
process.kill(pid, 'SIGSTOP')
const from = performance.now()
pause(frozenMs)
process.kill(pid, 'SIGCONT')
process.stdout.write(`${performance.now() - from}\n`)
