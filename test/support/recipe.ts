// Reads what a recipe of the docs tells operators to write, so that a test runs exactly that.
import { readFileSync } from 'node:fs'

const RECIPES = new URL('../../docs/recipes/', import.meta.url)

/** The text of a recipe, or of one of its sections: `data-apps#Streamlit`. */
export const recipeText = (name: string): string => {
  const [page = '', section] = name.split('#')
  const text = readFileSync(new URL(`${page}.md`, RECIPES), 'utf8')
  if (section === undefined) return text
  const found = text.split(/^## /m).find(part => part.startsWith(`${section}\n`))
  if (found === undefined) throw new Error(`${page}.md has no section ${section}`)
  return found
}

/** The settings that a recipe names, in its first block of shell. */
export const recipeSettings = (name: string): Record<string, string> => {
  const text = recipeText(name)
  const block = /^```sh\n(.*?)^```/ms.exec(text)?.[1] ?? ''
  return Object.fromEntries([...block.matchAll(/^([A-Z_]+)=(\S+)$/gm)].map(([, key = '', value = '']) => [key, value]))
}

/** All blocks of this language in a recipe. */
export const recipeBlocks = (name: string, language: string): string[] =>
  [...recipeText(name).matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, block = '']) => block)

/** The first of them, with addresses of the text replaced by those of the test. */
export const recipeBlock = (
  name: string,
  language: string,
  addresses: Readonly<Record<string, string>> = {}
): string => {
  const [block] = recipeBlocks(name, language)
  if (block === undefined) throw new Error(`${name}.md has no block of ${language}`)
  return Object.entries(addresses).reduce((written, [from, to]) => {
    if (!written.includes(from)) throw new Error(`${name}.md does not say ${from}`)
    return written.replaceAll(from, to)
  }, block)
}
