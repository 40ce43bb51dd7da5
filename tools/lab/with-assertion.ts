// Backends that verify the signed assertion, each by the text of its example: FastAPI with PyJWT, Express with jose.
import { deepEqual, equal } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { type Lab, PYTHON, pythonVersion, type System } from './system.ts'

const PAGE = '../assertion'
const TRIED = ['identity from the assertion, 401 without it and with a forged one (bearer)']

/** Starts the gateway first, since the example names its address; `start` runs the backend on the port. */
const checkExample = async (lab: Lab, start: (gatewayUrl: string, port: number) => Promise<void>) => {
  const port = await freePort()
  const world = await lab.gateway(PAGE, { '10.0.0.11:4001': `127.0.0.1:${port}` })
  await start(world.url, port)
  const direct = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${port}/orders/7`, { headers })
  equal((await direct({})).status, 401)
  equal((await direct({ 'x-user-id': '1', 'x-user-assertion': await world.tokenFor() })).status, 401)
  const answer = await world.fetch('/orders/7', { token: await world.tokenFor({ username: 'maria' }) })
  equal(answer.status, 200)
  deepEqual(await answer.json(), { id: 7, asked_by: 'maria' })
  return TRIED
}

const fastapi: System = {
  name: 'FastAPI, PyJWT',
  recipe: PAGE,
  version: () => `${pythonVersion('fastapi')()}, ${pythonVersion('pyjwt')()}`,
  check: lab =>
    checkExample(lab, async (gatewayUrl, port) => {
      const text = recipeBlock(PAGE, 'python', { 'https://gateway.example': gatewayUrl })
      writeFileSync(join(lab.folder, 'service.py'), text)
      await lab.run(PYTHON, ['-m', 'uvicorn', 'service:app', '--port', String(port)], port)
    })
}

const express: System = {
  name: 'Express, jose',
  recipe: PAGE,
  version: () => '5.3.0, 6.2.17',
  check: lab =>
    checkExample(lab, async (gatewayUrl, port) => {
      writeFileSync(join(lab.folder, 'package.json'), '{"private":true}')
      const words = ['install', '--no-audit', '--no-fund', 'express@5.3.0', 'jose@6.2.17']
      await promisify(execFile)('npm', words, { cwd: lab.folder, timeout: 240_000 })
      const listening = {
        'https://gateway.example': gatewayUrl,
        'app.listen(4001)': `app.listen(${port}, '127.0.0.1')`
      }
      writeFileSync(join(lab.folder, 'service.mjs'), recipeBlock(PAGE, 'js', listening))
      await lab.run(process.execPath, ['service.mjs'], port)
    })
}

export const WITH_ASSERTION: readonly System[] = [fastapi, express]
