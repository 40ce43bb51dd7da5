// Lists every combination of client, backend, body, framing, direction and reader that a forwarded body can meet.

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
const BACKENDS = ['http', 'https', 'unix'] as const
const FRAMINGS = ['length', 'chunked', 'close', 'trailers'] as const
const DIRECTIONS = ['down', 'up', 'both'] as const
const READERS = ['fast', 'slow', 'leaves'] as const

export type ClientKind = (typeof CLIENTS)[number]
export type BackendKind = (typeof BACKENDS)[number]
export type Framing = (typeof FRAMINGS)[number]

export interface Cell {
  readonly client: ClientKind
  readonly backend: BackendKind
  readonly size: keyof typeof SIZES
  readonly framing: Framing
  /** Where the body of `size` goes: to the client, to the backend, or both ways at once. */
  readonly direction: (typeof DIRECTIONS)[number]
  /** What its receiver does: the backend's for `up`, else the client's. */
  readonly reader: (typeof READERS)[number]
}

/** One client's cells to one backend, which follow each other on one connection. */
export interface Lane {
  readonly client: ClientKind
  readonly backend: BackendKind
  readonly cells: readonly Cell[]
}

const cellsOf = function* (client: ClientKind, backend: BackendKind): Generator<Cell> {
  for (const size of Object.keys(SIZES) as (keyof typeof SIZES)[])
    for (const framing of FRAMINGS)
      for (const direction of DIRECTIONS)
        for (const reader of READERS) yield { client, backend, size, framing, direction, reader }
}

export const lanes = (wanted: (cell: Cell) => boolean): Lane[] =>
  CLIENTS.flatMap(client =>
    BACKENDS.map(backend => ({ client, backend, cells: [...cellsOf(client, backend)].filter(wanted) }))
  )

export const nameOf = ({ client, backend, size, framing, direction, reader }: Cell): string =>
  `${client} client, ${backend} backend, ${size} ${direction}, ${framing}, reader ${reader}`

/** The framing of the request; only a response can end with its connection. */
export const requestFraming = (framing: Framing): 'length' | 'chunked' | 'trailers' =>
  framing === 'close' ? 'length' : framing
