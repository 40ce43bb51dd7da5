// Loads a mutant in place of its module in any process that is started with this as `--import` (see runner.ts).
import { installHooks } from './hooks.ts'

const { module, source } = JSON.parse(process.env.PORTARIA_MUTANT ?? '{}') as { module: string; source: string }
installHooks(() => ({ module, source, fresh: new Set(), generation: 0, isAlone: true }))
