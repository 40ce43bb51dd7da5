// Names the files that pages load, and reads them from a folder.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** By file name; each also compressed, with `.br` or `.gz` behind its name. */
export type BundledFiles = ReadonlyMap<string, Buffer>

/** A file, and its hash for Subresource Integrity. */
export interface FileReference {
  readonly file: string
  readonly integrity: string
}

export interface PageFiles {
  readonly script: FileReference
  readonly styles: readonly FileReference[]
}

/** For each page, which is a script of that name, its style sheets. */
export const PAGES = {
  login: ['pages'],
  console: ['pages', 'console', 'uPlot.min'],
  account: ['pages', 'console'],
  apps: ['pages', 'console']
} as const

export type PageName = keyof typeof PAGES

/** In the file `manifest.json`. */
export interface Manifest {
  readonly pages: Readonly<Record<PageName, PageFiles>>
  readonly icon: string
}

export const readBundledFiles = (folder: string): BundledFiles =>
  new Map(readdirSync(folder).map(name => [name, readFileSync(join(folder, name))]))
