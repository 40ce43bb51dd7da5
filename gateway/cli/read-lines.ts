// Reads a file of any size line by line in bounded memory; lines that are too long are skipped.
import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { CannotRun, type Cli } from './command.ts'

/** Longer lines cannot be access-log lines. */
const MAX_LINE_CHARACTERS = 256 * 1024

/** Lines of a file, decompressed if its name ends in `.gz`; `-` is standard input. Throws {@link CannotRun}. */
export async function* readLines(cli: Cli, file: string): AsyncGenerator<string> {
  try {
    yield* splitLines(open(cli, file))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    throw new CannotRun(`${file} cannot be read (${code})`)
  }
}

const open = (cli: Cli, file: string): AsyncIterable<Buffer | string> => {
  if (file === '-') return cli.stdin
  const bytes = createReadStream(file, { highWaterMark: 256 * 1024 })
  if (!file.endsWith('.gz')) return bytes
  const unpacked = createGunzip()
  bytes.on('error', error => unpacked.destroy(error))
  return bytes.pipe(unpacked)
}

async function* splitLines(chunks: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let pending = ''
  let isTooLong = false
  for await (const chunk of chunks) {
    pending += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
    const lines = pending.split('\n')
    pending = lines.pop() ?? ''
    for (const line of lines) {
      yield isTooLong ? '' : line
      isTooLong = false
    }
    if (pending.length <= MAX_LINE_CHARACTERS) continue
    pending = ''
    isTooLong = true
  }
  if (pending !== '' && !isTooLong) yield pending
}
