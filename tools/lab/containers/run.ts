// Builds the image and runs the compose stack with a real engine: `npm run lab -- containers`, as root.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { freePort } from '../../../test/support/ports.ts'
import { withTeardown } from '../../teardown.ts'
import { tryInstalling } from '../cases.ts'
import { makeBaseImages } from './base-images.ts'
import { startEngine } from './engine.ts'
import { imageCases } from './image-cases.ts'
import { replaceCases } from './replace-cases.ts'
import { type Stack, stackCases } from './stack-cases.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** A checkout as somebody with a strict umask has it. */
export const checkOut = (folder: string): void => {
  execFileSync('sh', [
    '-euc',
    'umask 077; git clone -q "$1" "$2"; cd "$2"; chmod -R a+rX upstream-config docker/portaria',
    'sh',
    ROOT,
    folder
  ])
}

/** Resolves to how many cases did not work. */
export const runContainers = (): Promise<number> =>
  withTeardown(async t => {
    const engine = await startEngine(t)
    const port = await freePort()
    const checkout = join(engine.folder, 'checkout')
    const compose = (...words: string[]) => engine.compose(checkout, { PORT: String(port) }, ...words)
    // What `compose run` started counts as an orphan, and would keep the networks, whose bridges outlive the engine.
    t.teardown(() => compose('down', '--volumes', '--remove-orphans').catch(() => undefined))
    await makeBaseImages(engine)
    checkOut(checkout)
    const stack: Stack = { engine, checkout, compose, url: `http://localhost:${port}` }
    return tryInstalling([...imageCases, ...stackCases, ...replaceCases], stack, engine.version)
  })
