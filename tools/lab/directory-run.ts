// Tries each case of a directory or provider directly, then through Portaria, and prints both as a table.
import type { Compared, Outcome } from './compared.ts'
import { keycloak } from './keycloak.ts'
import { samba } from './samba.ts'

const say = (line: string): void => {
  process.stdout.write(`${line}\n`)
}

/** Runs every case, tears the system down, and returns the rows of its table. */
const runCases = async (system: Compared): Promise<Outcome[]> => {
  const teardowns: (() => unknown)[] = []
  const t = { teardown: (action: () => unknown) => void teardowns.unshift(action) }
  const outcomes: Outcome[] = []
  try {
    for (const { name, directly, through } of await system.start(t, say)) {
      const outcome = { name, directly: await tell(directly), through: await tell(through) }
      outcomes.push(outcome)
      say(
        `${outcome.through.ok ? 'ok    ' : 'NOT OK'} ${name}\n         directly: ${outcome.directly.text}\n         Portaria: ${outcome.through.text}`
      )
    }
  } finally {
    for (const teardown of teardowns) await teardown()
  }
  return outcomes
}

const tell = async (run: () => Promise<string>): Promise<{ ok: boolean; text: string }> => {
  try {
    return { ok: true, text: await run() }
  } catch (error) {
    return { ok: false, text: `failed: ${error instanceof Error ? error.message : String(error)}` }
  }
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

const section = ({ title }: Compared, version: string, outcomes: readonly Outcome[]): string =>
  [
    `## ${title}`,
    '',
    version,
    '',
    '| case | directly | through Portaria |',
    '|---|---|---|',
    ...outcomes.map(({ name, directly, through }) => `| ${name} | ${cell(directly.text)} | ${cell(through.text)} |`),
    ''
  ].join('\n')

/** Those that `npm run lab -- NAME` runs by themselves. */
export const PROVIDERS: readonly Compared[] = [keycloak, samba]

/** Whether all cases passed. */
export const runProvider = async (system: Compared): Promise<boolean> => {
  const outcomes = await runCases(system)
  say(`\n${section(system, await system.version(), outcomes)}`)
  return outcomes.every(({ through }) => through.ok)
}
