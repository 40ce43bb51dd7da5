// Backends that verify the signed assertion, each by the text of its example: FastAPI with PyJWT, Express with jose.
import { deepEqual, equal } from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../test/support/ports.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import { npm } from './installed.ts'
import { PYTHON_PACKAGES, startUvicorn } from './python.ts'
import type { Lab, System } from './system.ts'

const PAGE = '../assertion'
const EXPRESS = { express: '5.3.0', jose: '6.2.17' }

/** Starts the gateway first, since the example names its address; `start` runs the backend on the port. */
const checkExample = async (lab: Lab, start: (gatewayUrl: string, port: number) => Promise<unknown>) => {
  const port = await freePort()
  const world = await lab.gateway(PAGE, { '10.0.0.11:4001': `127.0.0.1:${port}` })
  await start(world.url, port)
  const direct = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${port}/orders/7`, { headers })
  equal((await direct({})).status, 401)
  equal((await direct({ 'x-user-id': '1', 'x-user-assertion': await world.tokenFor() })).status, 401)
  const answer = await world.fetch('/orders/7', { token: await world.tokenFor({ username: 'maria' }) })
  equal(answer.status, 200)
  deepEqual(await answer.json(), { id: 7, asked_by: 'maria' })
  return ['identity from the assertion, 401 without it and with a forged one (bearer)']
}

const fastapi: System = {
  name: 'FastAPI, PyJWT',
  recipe: PAGE,
  version: () => `${PYTHON_PACKAGES.fastapi}, ${PYTHON_PACKAGES['pyjwt[crypto]']}`,
  check: lab =>
    checkExample(lab, (gatewayUrl, port) => {
      const files = { 'service.py': recipeBlock(PAGE, 'python', { 'https://gateway.example': gatewayUrl }) }
      return startUvicorn(lab, 'service:app', { port, files })
    })
}

const express: System = {
  name: 'Express, jose',
  recipe: PAGE,
  version: () => Object.values(EXPRESS).join(', '),
  check: lab =>
    checkExample(lab, async (gatewayUrl, port) => {
      cpSync(join(await npm(EXPRESS), 'node_modules'), join(lab.folder, 'node_modules'), { recursive: true })
      const service = recipeBlock(PAGE, 'js', {
        'https://gateway.example': gatewayUrl,
        'app.listen(4001)': `app.listen(${port}, '127.0.0.1')`
      })
      return lab.start(process.execPath, ['service.mjs'], { port, files: { 'service.mjs': service } })
    })
}

export const WITH_ASSERTION: readonly System[] = [fastapi, express]
