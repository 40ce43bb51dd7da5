// Gives an embedded database its first files, which are made once on a machine: making them takes five seconds each time.
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { CACHE_FOLDER, PACKAGE_FOLDER } from '../../gateway/values/package-files.ts'

/** Afterwards `dataDir` holds a Postgres without tables, as the first start leaves it; nothing where nothing can be kept. */
export const fillDataDir = async (dataDir: string): Promise<void> => {
  // Its packages are pinned by ours.
  const manifest = readFileSync(join(PACKAGE_FOLDER, 'package.json'))
  const template = join(CACHE_FOLDER, `embedded-${createHash('sha256').update(manifest).digest('hex').slice(0, 16)}`)
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
  mkdirSync(CACHE_FOLDER, { recursive: true })
  const fresh = mkdtempSync(join(CACHE_FOLDER, 'initdb-'))
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
