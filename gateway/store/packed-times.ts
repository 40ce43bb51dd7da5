// Decodes times that Postgres encodes with `timestamptz_send`, which costs it much less than `extract`.

/** 2000-01-01 00:00:00 UTC, the epoch of Postgres (PostgreSQL documentation, 8.5). */
const POSTGRES_EPOCH_MICROS = 946_684_800_000_000
const TWO_TO_32 = 2 ** 32
const MICROS_PER_SECOND = 1_000_000

/** Seconds since the epoch. */
export const secondsAt = (packed: Buffer, at: number): number => {
  const micros = packed.readInt32BE(at) * TWO_TO_32 + packed.readUInt32BE(at + 4)
  return (micros + POSTGRES_EPOCH_MICROS) / MICROS_PER_SECOND
}
