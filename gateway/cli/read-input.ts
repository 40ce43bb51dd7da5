// Reads input up to a limit, and passwords without echo.
import { CannotRun, type Cli } from './command.ts'

const MAX_CHARACTERS = 64 * 1024

/** Reads standard input as text, within a limit. Throws {@link CannotRun} beyond it. */
export const readAll = async ({ stdin }: Cli): Promise<string> => {
  let text = ''
  for await (const chunk of stdin) {
    text += String(chunk)
    if (text.length > MAX_CHARACTERS) throw new CannotRun('The input is too long')
  }
  return text
}

interface Keyboard extends NodeJS.ReadableStream {
  readonly isTTY?: boolean
  setRawMode?(on: boolean): unknown
}

/** Prompts on standard error, so that standard output contains only the result; with `isSecret`, input is not echoed. */
export const ask = (cli: Cli, question: string, isSecret: boolean): Promise<string> => {
  const keyboard: Keyboard = cli.stdin
  if (keyboard.isTTY !== true || keyboard.setRawMode === undefined) {
    throw new CannotRun('There is no terminal for a prompt: use --username and --password-stdin')
  }
  // Done first, so that an immediate answer is not echoed.
  keyboard.setRawMode(true)
  cli.stderr.write(question)
  keyboard.setEncoding('utf8')
  return new Promise((resolve, reject) => {
    let typed = ''
    const end = (settle: () => void) => {
      keyboard.setRawMode?.(false)
      keyboard.off('data', onData)
      keyboard.off('end', onEnd)
      keyboard.pause()
      cli.stderr.write('\n')
      settle()
    }
    const stop = () => end(() => reject(new CannotRun('Stopped')))
    const onEnd = () => stop()
    const onData = (chunk: string | Buffer) => {
      for (const key of String(chunk)) {
        if (key === '\r' || key === '\n') return end(() => resolve(typed))
        if (key === '\u0003' || key === '\u0004') return stop()
        const isBackspace = key === '\u007f' || key === '\b'
        if (isBackspace && typed !== '' && !isSecret) cli.stderr.write('\b \b')
        if (isBackspace) typed = [...typed].slice(0, -1).join('')
        else if (key >= ' ') {
          typed += key
          if (!isSecret) cli.stderr.write(key)
        }
      }
    }
    keyboard.on('data', onData)
    keyboard.on('end', onEnd)
    keyboard.resume()
  })
}
