// Reads large route files in a process of its own, which is started with the name of their folder and sends what it contains.
import { usePlainEnvironment } from '../settings/plain-environment.ts'
import { readRouteFiles } from './read.ts'

// The YAML parser looks a variable up for each of its tokens, which takes a fifth of the time.
usePlainEnvironment()
const [, , folder = ''] = process.argv
process.send?.(await readRouteFiles(folder), undefined, undefined, () => process.exit())
