// Describes the form of a route in a route file.
import { ROUTE_FLAGS, type RouteFlags } from '../../routes/route.ts'
import { ROUTE_OPTIONS } from '../define/route-options.ts'
import { type Accepted, flag, list, record, roles, type Schema, text } from './forms.ts'

type Options = typeof ROUTE_OPTIONS

const FLAGS = Object.fromEntries(Object.entries(ROUTE_FLAGS).map(([name, says]) => [name, flag(says)])) as Record<
  keyof RouteFlags,
  Schema<boolean>
>

const OPTIONS = Object.fromEntries(Object.entries(ROUTE_OPTIONS).map(([name, { schema }]) => [name, schema])) as {
  [Name in keyof Options]: Options[Name]['schema']
}

const METHOD: Schema<string> = {
  title: 'a method in upper case',
  type: 'string',
  pattern: "^(?!CONNECT$)[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$"
}

export const routeSchema = record(
  'a route',
  'Requests to forward, the upstream that receives them, and the people who may send them.',
  {
    path: text(
      'a path that begins with /',
      'Path to match: exactly, with :name for any one segment, or with /* at the end for the path itself and everything below it.',
      '/api/orders/*'
    ),
    upstream: text(
      'the name of an upstream',
      'Upstream that receives the requests. Required unless external is true.',
      'orders'
    ),
    methods: list(
      'a list of methods',
      'Methods to match; GET includes HEAD. Without this key, all methods match except TRACE and CONNECT.',
      METHOD,
      ['GET', 'POST']
    ),
    roles,
    ...FLAGS,
    stripPrefix: text(
      'a path that begins with /',
      'Prefix that is removed from the path before the request is forwarded.',
      '/api'
    ),
    ...OPTIONS
  },
  {
    required: ['path'],
    if: { required: ['external'], properties: { external: { const: true } } },
    else: { title: 'a route', required: ['upstream'] },
    examples: [{ path: '/api/orders/*', upstream: 'orders', roles: ['Admin'] }]
  }
)

export type RouteData = Accepted<typeof routeSchema>
