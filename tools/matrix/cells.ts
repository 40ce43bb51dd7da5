// Lists every combination of client, backend, body, framing, direction and reader that a forwarded body can meet.
import type { Body } from './body.ts'

export const SIZES = {
  nothing: 0,
  'one byte': 1,
  '5 KB': 5 * 1024,
  'a TLS record': 16 * 1024,
  'more than a TLS record': 17 * 1024,
  '64 KB': 64 * 1024,
  '1 MB': 1024 * 1024,
  '100 MB': 100 * 1024 * 1024
} as const

const CLIENTS = ['plain', 'tls'] as const
export const BACKENDS = ['http', 'https', 'unix'] as const
const FRAMINGS = ['length', 'chunked', 'close', 'trailers'] as const
const DIRECTIONS = ['down', 'up', 'both'] as const
const READERS = ['fast', 'slow', 'leaves'] as const

export type BackendKind = (typeof BACKENDS)[number]

export interface Cell extends Body {
  readonly client: (typeof CLIENTS)[number]
  readonly backend: BackendKind
  readonly sizeName: string
}

/** One client's cells to one backend, which follow each other on one connection. */
export type Lane = Pick<Cell, 'client' | 'backend'> & { readonly cells: readonly Cell[] }

const cellsOf = function* (client: Cell['client'], backend: BackendKind): Generator<Cell> {
  for (const [sizeName, size] of Object.entries(SIZES))
    for (const framing of FRAMINGS)
      for (const direction of DIRECTIONS)
        for (const reader of READERS) yield { client, backend, sizeName, size, framing, direction, reader }
}

export const lanes = (wanted: (cell: Cell) => boolean): Lane[] =>
  CLIENTS.flatMap(client =>
    BACKENDS.map(backend => ({ client, backend, cells: [...cellsOf(client, backend)].filter(wanted) }))
  )

export const nameOf = ({ client, backend, sizeName, framing, direction, reader }: Cell): string =>
  `${client} client, ${backend} backend, ${sizeName} ${direction}, ${framing}, reader ${reader}`
