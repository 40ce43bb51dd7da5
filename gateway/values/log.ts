// Describes what the parts of the gateway need of a log.
import type { Logger } from 'pino'

export type Log = Pick<Logger, 'info' | 'warn' | 'error'>
