// Every migration, in the order in which they run.
import { FirstSchema } from './0001-first-schema.ts'
import { LoginPermits } from './0002-login-permits.ts'

export const migrations = [FirstSchema, LoginPermits]
