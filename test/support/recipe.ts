// Reads what a recipe of the docs tells operators to write, so that a test runs exactly that.
import { readFileSync } from 'node:fs'

const RECIPES = new URL('../../docs/recipes/', import.meta.url)

/** The settings that a recipe names, in its first block of shell. */
export const recipeSettings = (name: string): Record<string, string> => {
  const text = readFileSync(new URL(`${name}.md`, RECIPES), 'utf8')
  const block = /^```sh\n(.*?)^```/ms.exec(text)?.[1] ?? ''
  return Object.fromEntries([...block.matchAll(/^([A-Z_]+)=(\S+)$/gm)].map(([, key = '', value = '']) => [key, value]))
}

/** The first block of this language in a recipe, with addresses of the text replaced by those of the test. */
export const recipeBlock = (
  name: string,
  language: string,
  addresses: Readonly<Record<string, string>> = {}
): string => {
  const text = readFileSync(new URL(`${name}.md`, RECIPES), 'utf8')
  const block = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'ms').exec(text)?.[1]
  if (block === undefined) throw new Error(`${name}.md has no block of ${language}`)
  return Object.entries(addresses).reduce((written, [from, to]) => {
    if (!written.includes(from)) throw new Error(`${name}.md does not say ${from}`)
    return written.replaceAll(from, to)
  }, block)
}
