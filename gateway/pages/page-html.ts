// Writes the small HTML documents of the pages, whose scripts render everything in the reader's language.
import { ASSETS } from './assets.ts'
import type { Manifest, PageName } from './bundle-pages.ts'

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => ENTITIES[character] ?? character)

type Facts = Readonly<Record<string, string>> & { readonly brand: string }

/** @param facts what the script needs from the start: `<meta name="portaria:NAME" content="VALUE">` */
export const pageHtml = (name: PageName, manifest: Manifest, facts: Facts): string => {
  const [script, style, icon] = [manifest[`${name}.js`], manifest[`${name}.css`], manifest['icon.svg']]
  const brand = escapeHtml(facts.brand)
  return `<!doctype html>
<html lang="pt-BR">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
${Object.entries(facts)
  .map(([name, value]) => `<meta name="portaria:${escapeHtml(name)}" content="${escapeHtml(value)}">\n`)
  .join('')}<title>${brand}</title>
<link rel="icon" type="image/svg+xml" href="${ASSETS}${icon.file}">
<link rel="stylesheet" href="${ASSETS}${style.file}" integrity="${style.integrity}">
<script type="module" src="${ASSETS}${script.file}" integrity="${script.integrity}"></script>
</head>
<body>
<div id="app"><main class="card late"><h1>${brand}</h1>
<p>A página não carregou por completo. <a href="">Recarregar</a></p><p lang="en">The page did not load completely. <a href="">Reload</a></p>
<noscript><p>Esta página precisa de JavaScript.</p><p lang="en">This page needs JavaScript.</p></noscript></main></div>
</body>
</html>
`
}
