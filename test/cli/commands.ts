// Runs rows of commands on a folder of route files, and compares what each says.
import type { Test } from 'tap'
import { portariaHere } from '../support/cli-here.ts'

/** A command in words that contain no blanks, its exit code, and what it says; FOLDER stands for the folder. */
export type Said = readonly [command: string, code: number, ...says: RegExp[]]

export const checkSaid = async (
  t: Test,
  folder: string,
  rows: readonly Said[],
  options: Parameters<typeof portariaHere>[1] = {}
): Promise<void> => {
  for (const [command, code, ...says] of rows) {
    const args = command.split(' ').map(word => (word === 'FOLDER' ? folder : word))
    const result = await portariaHere(args, options)
    t.equal(result.code, code, `${command}: exit code`)
    for (const pattern of says) t.match(result.stdout + result.stderr, pattern, command)
    if (code === 2) t.equal(result.stdout, '', `${command}: what cannot run is no result`)
    t.notMatch(result.stderr, /\n\s+at /, `${command}: no stack trace`)
  }
}
