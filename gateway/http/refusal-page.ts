// A refusal as a small readable page: no script, its own few lines of style, its status, words and request id.
import { createHash } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { GatewayError } from '../errors.ts'
import type { Exchange } from './exchange.ts'
import { fieldValue } from './server/request.ts'

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => ENTITIES[character] ?? character)

// The colours of the login page, where a browser knows `light-dark`.
const STYLE = `
body { margin: 0; min-height: 100vh; display: grid; place-items: center; overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  background: light-dark(#f3f6f5, #0e1413); color: light-dark(#16211f, #e6eeec) }
main { box-sizing: border-box; width: min(32rem, 100%); padding: 1.5rem }
h1 { margin: 0; font-size: 1.6rem; line-height: 1.2 }
small { color: light-dark(#52625e, #9fb1ac) }
`

/** Content-Security-Policy of the page: nothing loads, and only its own style applies (CSP Level 3 §6.7.2, by hash). */
export const REFUSAL_PAGE_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'"
].join('; ')

export const refusalPage = (error: GatewayError, requestId: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${error.statusCode} ${escapeHtml(STATUS_CODES[error.statusCode] ?? 'Error')}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${error.statusCode} ${escapeHtml(STATUS_CODES[error.statusCode] ?? 'Error')}</h1>
<p>${escapeHtml(error.message)}</p>
<p><small>${escapeHtml(error.code)} · Request id / Código do pedido: <span id="request-id">${escapeHtml(requestId)}</span></small></p>
</main>
</body>
</html>
`

/** Whether somebody navigated here: a page then, and JSON for everything else (Fetch Metadata; older browsers by Accept). */
export const wantsPage = ({ request, head }: Exchange): boolean => {
  if (head.accept === undefined || !/(?:^|,)\s*text\/html\s*(?:;|,|$)/i.test(head.accept)) return false
  const mode = fieldValue(request.fields, 'sec-fetch-mode')
  const destination = fieldValue(request.fields, 'sec-fetch-dest')
  return (mode === undefined || mode === 'navigate') && (destination === undefined || destination === 'document')
}
