// Names the files that pages load.

/** By file name, each also compressed with `.gz` behind its name; but `manifest.json`. */
export type BundledFiles = ReadonlyMap<string, Buffer>

/** Each is a script of that name, with the style sheets that it imports. */
export const PAGES = ['login', 'console', 'account', 'apps'] as const
export type PageName = (typeof PAGES)[number]

/** A file, and its hash for Subresource Integrity. */
export interface FileReference {
  readonly file: string
  readonly integrity: string
}

/** In `manifest.json`: the file of each script, style sheet and picture, such as `login.js`. */
export type Manifest = Readonly<Record<`${PageName}.js` | `${PageName}.css` | 'icon.svg', FileReference>>
