// Renders the demo's applications for browsers: small pages made on the server, from the headers that name the person.
import type { IncomingHttpHeaders } from 'node:http'
import { escapeHtml } from '../../gateway/pages/page-html.ts'

interface SampleApp {
  readonly title: string
  readonly lines: readonly string[]
  /** Drawn in white on a coloured square of 32 by 32. */
  readonly icon: readonly [colour: string, path: string]
}

/** By path; the handbook is at the root of its own host. */
const APPS: Readonly<Record<string, SampleApp>> = {
  '/sales': {
    title: 'Orders',
    lines: ['2041 Padaria Aurora: packed', '2042 Livraria Central: on its way', '2043 Café do Porto: new'],
    icon: ['#0f6b5c', 'M6 8h3l3 11h11l3-8H11M14 24h.1M21 24h.1']
  },
  '/stock': {
    title: 'Stock',
    lines: ['Shelf A 3: 114 bags of flour', 'Shelf B 1: 38 kg of coffee', 'Shelf C 7: 2600 paper bags'],
    icon: ['#8a5a00', 'M6 11l10-5 10 5v10l-10 5-10-5zM6 11l10 5 10-5M16 16v10']
  },
  '/reports': {
    title: 'Reports',
    lines: ['August: 412 300', 'September: 438 950', 'October: 451 120'],
    icon: ['#3558a8', 'M7 25V7M7 25h19M12 21v-6M17 21V10M22 21v-9']
  },
  '/payroll': {
    title: 'Payroll',
    lines: ['October: 41 people, paid', 'November: 43 people, being checked'],
    icon: ['#8b2f6b', 'M5 10h22v13H5zM16 19a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5']
  },
  handbook: {
    title: 'Handbook',
    lines: ['Who decides discounts', 'Returns and refunds'],
    icon: ['#465a2c', 'M7 7h7a3 3 0 0 1 3 3v15a3 3 0 0 0-3-2H7zM27 7h-7a3 3 0 0 0-3 3v15a3 3 0 0 1 3-2h7z']
  }
}

/** What the gateway says about the person, for HTML. */
const fieldOf = (headers: IncomingHttpHeaders, name: string): string =>
  escapeHtml(decodeURIComponent(String(headers[name] ?? '')))

const page = (title: string, content: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>` +
  `<link rel="icon" href="data:,"><link rel="stylesheet" href="/messaging-demo/demo.css"><main><h1>${title}</h1>${content}` +
  '<p><a href="/auth/apps">All applications</a></p></main></html>\n'

const iconOf = ([colour, path]: SampleApp['icon']): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${colour}"/>` +
  `<path d="${path}" fill="none" stroke="#fff" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/></svg>\n`

/** The content type and text of a path; undefined if it is none of theirs. These backends know no passwords, tokens or cookies. */
export const answerApp = (path: string, headers: IncomingHttpHeaders): [type: string, text: string] | undefined => {
  const name = fieldOf(headers, 'x-user-name')
  const profiles = fieldOf(headers, 'x-user-profiles') || 'none yet'
  if (path === '/panel') {
    const words = 'Rendered on the server, which received a header instead of your session.'
    return ['text/html', page(`Hello, ${name}`, `<p>Profiles: ${profiles}. ${words}</p>`)]
  }
  // X-Forwarded-Host is the gateway's.
  const isHandbook = headers['x-forwarded-host']?.toString().startsWith('handbook.') === true
  const asked = path.replace(/\/(?:icon\.svg)?$/, '')
  const app = APPS[isHandbook && asked === '' ? 'handbook' : asked]
  if (app === undefined) return undefined
  if (path.endsWith('/icon.svg')) return ['image/svg+xml', iconOf(app.icon)]
  const items = app.lines.map(line => `<li>${line}</li>`).join('')
  return ['text/html', page(app.title, `<p>${name}, ${profiles}</p><ul>${items}</ul>`)]
}
