// Describes what the parts of the gateway need from a log.
import type { Logger } from 'pino'

export type Log = Pick<Logger, 'info' | 'warn' | 'error'>
