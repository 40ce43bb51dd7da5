// The schema beside the route files is the one that the gateway checks by, and explains every key to an editor.
import { readFile } from 'node:fs/promises'
import { Ajv } from 'ajv'
import t from 'tap'
import { socketioSchema, websocketSchema } from '../../gateway/route-files/define/define-sockets.ts'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { routeFileSchema, routeSchema, schemaText } from '../../gateway/route-files/schema/route-file-schema.ts'
import { upstreamSchema } from '../../gateway/route-files/schema/upstream-schema.ts'
import { routeFolder } from '../support/route-files.ts'

t.test('upstream-config/schema.json is current', async t => {
  const written = await readFile(new URL('../../upstream-config/schema.json', import.meta.url), 'utf8')
  t.equal(written, schemaText(), 'run: node gateway/route-files/schema/route-file-schema.ts')
})

t.test('the schema is a valid JSON Schema', async t => {
  const ajv = new Ajv({ strict: false })
  t.ok(ajv.validateSchema(routeFileSchema), ajv.errorsText())
})

t.test('every key has a title, a description and an example, and every map is closed', async t => {
  const visit = (schema: unknown, name: string): void => {
    if (typeof schema !== 'object' || schema === null) return
    const { properties, items, additionalProperties } = schema as Record<string, unknown>
    for (const [key, value] of Object.entries(properties ?? {})) {
      t.match(value, { title: String, description: String, examples: Array }, `${name}.${key}`)
      visit(value, `${name}.${key}`)
    }
    if (properties !== undefined) t.equal(additionalProperties, false, `${name} is closed`)
    visit(items, `${name}[]`)
    visit(additionalProperties, `${name}.*`)
  }
  visit(routeFileSchema, 'file')
})

t.test('a default that is written out changes nothing: the schema and the docs name those in use', async t => {
  const defaultsOf = ({ properties }: Readonly<Record<string, unknown>>): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(properties as Record<string, { default?: unknown }>)
        .filter(([, { default: fallback }]) => fallback !== undefined)
        .map(([key, { default: fallback }]) => [key, fallback])
    )
  const { healthCheck } = upstreamSchema.properties as Record<string, Record<string, unknown>>
  const { rateLimit } = routeSchema.properties as Record<string, Record<string, unknown>>
  const tableOf = async (written: (schema: Readonly<Record<string, unknown>>) => object) => {
    const upstream = {
      url: 'http://h',
      healthCheck: { path: '/x', ...written(healthCheck ?? {}) },
      ...written(upstreamSchema)
    }
    const io = { namespaces: { '/x': {} }, ...written(socketioSchema) }
    const routes = [
      { path: '/a', rateLimit: { max: 1, window: '1m', ...written(rateLimit ?? {}) }, ...written(routeSchema) },
      { path: '/b', websocket: written(websocketSchema) },
      { path: '/c/*', socketio: io }
    ].map(route => ({ ...route, upstream: 'up' }))
    const folder = await routeFolder(t, { 'a.yaml': JSON.stringify({ upstreams: { up: upstream }, routes }) })
    const { table } = await loadRoutes(folder, [])
    return table.routes.map(({ number: _, place: __, upstream: up, ...route }) => ({
      ...route,
      up: { ...up, place: 0 }
    }))
  }
  t.ok(Object.keys(defaultsOf(upstreamSchema)).length > 5)
  t.same(await tableOf(defaultsOf), await tableOf(() => ({})))
})
