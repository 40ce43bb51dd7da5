// Reads large route files in a process of its own, which is started with the name of their folder and sends what it contains.
import { readRouteFiles } from './read.ts'

const [, , folder = ''] = process.argv
process.send?.(await readRouteFiles(folder), undefined, undefined, () => process.exit())
