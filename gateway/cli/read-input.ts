// Reads input up to a limit, and passwords without echo.
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { CannotRun, type Cli } from './command.ts'

const MAX_CHARACTERS = 64 * 1024

/** Reads standard input as text, within a limit. Throws {@link CannotRun} beyond it. */
export const readAll = async ({ stdin }: Pick<Cli, 'stdin'>): Promise<string> => {
  // A character may arrive in two parts; a byte order mark, which some shells and editors write first, is left out.
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of stdin) {
    text += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
    if (text.length > MAX_CHARACTERS) throw new CannotRun('The input is too long')
  }
  return text
}

export const isTerminal = ({ stdin }: Cli): boolean => 'isTTY' in stdin && stdin.isTTY === true

/** Prompts on standard error, so that standard output contains only the result; with `isSecret`, input is not echoed. */
export const ask = async (cli: Cli, question: string, isSecret: boolean): Promise<string> => {
  if (!isTerminal(cli))
    throw new CannotRun(
      'There is no terminal for a prompt: use --username with --password-stdin, or --client-id with --secret-stdin'
    )
  let isMuted = false
  const output = new Writable({
    write(chunk, _encoding, done) {
      if (!isMuted) cli.stderr.write(chunk)
      done()
    }
  })
  // It turns the echo of the terminal off before anything is asked, so that an immediate answer is not shown.
  const terminal = createInterface({ input: cli.stdin, output, terminal: true, historySize: 0 })
  const stopped = new AbortController()
  terminal.once('close', () => stopped.abort())
  try {
    const answer = terminal.question(question, { signal: stopped.signal })
    isMuted = isSecret
    return await answer
  } catch {
    throw new CannotRun('Stopped')
  } finally {
    terminal.close()
    if (isSecret) cli.stderr.write('\n')
  }
}
