// Every migration, in the order in which they run.
import { FirstSchema } from './0001-first-schema.ts'

export const migrations = [FirstSchema]
