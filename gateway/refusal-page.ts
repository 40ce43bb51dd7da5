// A refusal as a small readable page: no script, no style from elsewhere, nothing but its status, words and request id.
import { STATUS_CODES } from 'node:http'
import type { GatewayError } from './errors.ts'
import type { Exchange } from './exchange.ts'

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => ENTITIES[character] ?? character)

export const refusalPage = (error: GatewayError, requestId: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${error.statusCode} ${escapeHtml(STATUS_CODES[error.statusCode] ?? 'Error')}</title>
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
export const wantsPage = ({ req, head }: Exchange): boolean => {
  if (head.accept === undefined || !/(?:^|,)\s*text\/html\s*(?:;|,|$)/i.test(head.accept)) return false
  const mode = req.headers['sec-fetch-mode']
  const destination = req.headers['sec-fetch-dest']
  return (mode === undefined || mode === 'navigate') && (destination === undefined || destination === 'document')
}
