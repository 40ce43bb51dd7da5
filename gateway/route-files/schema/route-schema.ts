// Describes the form of a route in a route file.
import { ROUTE_FLAGS, type RouteFlags } from '../../routes/route.ts'
import { ROUTE_OPTIONS, type RouteOptionData } from '../define/route-options.ts'
import { flag, list, record, roles, text } from './forms.ts'

export interface RouteData extends Partial<RouteFlags>, RouteOptionData {
  readonly path: string
  readonly upstream?: string
  readonly methods?: readonly string[]
  readonly roles?: readonly string[]
  readonly stripPrefix?: string
}

const FLAGS = Object.fromEntries(Object.entries(ROUTE_FLAGS).map(([name, says]) => [name, flag(says)]))

const OPTIONS = Object.fromEntries(Object.entries(ROUTE_OPTIONS).map(([name, { schema }]) => [name, schema]))

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
      { title: 'a method in upper case', type: 'string', pattern: "^(?!CONNECT$)[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$" },
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
