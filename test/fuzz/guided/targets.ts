// Names every parser that reads what strangers send, with what its readings are compared with.
import type { Target } from './engine.ts'
import { clientRequests } from './targets/client-requests.ts'

export const TARGETS: readonly Target[] = [clientRequests]
