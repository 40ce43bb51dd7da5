// Gives an embedded database its first files, which are made once on a machine: making them takes five seconds each time.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'

const MODULES = join(import.meta.dirname, '../../node_modules')
const CACHE = join(MODULES, '.cache/portaria')

/** Afterwards `dataDir` holds a Postgres without tables, as the first start leaves it; nothing where nothing can be kept. */
export const fillDataDir = async (dataDir: string): Promise<void> => {
  const { version } = JSON.parse(readFileSync(join(MODULES, '@electric-sql/pglite/package.json'), 'utf8')) as {
    version: string
  }
  const template = join(CACHE, `embedded-${version}`)
  try {
    if (!existsSync(template)) await make(template)
  } catch {
    // A read-only folder: the database makes its files itself.
    return
  }
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  cpSync(template, join(dataDir, 'postgres'), { recursive: true })
}

const make = async (template: string): Promise<void> => {
  mkdirSync(CACHE, { recursive: true })
  const fresh = mkdtempSync(join(CACHE, 'initdb-'))
  try {
    const database = await PGlite.create({ dataDir: join(fresh, 'postgres') })
    await database.close()
    renameSync(join(fresh, 'postgres'), template)
  } catch (error) {
    // Another was faster.
    if (!existsSync(template)) throw error
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}
