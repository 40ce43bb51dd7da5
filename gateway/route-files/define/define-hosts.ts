// Reads the hosts of a route in the one spelling that requests are compared with, or complains about them.
import type { Complain } from '../complaint.ts'
import { list, type Schema } from '../schema/forms.ts'

// RFC 1123 §2.1, and underscores, which names of services have.
const LABEL = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?'
const NAME = new RegExp(String.raw`^(?:\*\.)?(?=.{1,253}$)${LABEL}(?:\.${LABEL})*$`)

export const hostsSchema: Schema = {
  ...list(
    'a host name or a list of them',
    'Hosts on which the route applies, without ports; *.corp.example stands for exactly one label. Of the routes that name the host of a request, or a wildcard if none does, one must match; those without this key apply to all other hosts.',
    { title: 'a host name', type: 'string' },
    ['grafana.corp.example']
  ),
  type: ['string', 'array'],
  examples: ['grafana.corp.example', ['wiki.corp.example', '*.apps.corp.example']]
}

export const defineHosts = (written: string | readonly string[], say: Complain): readonly string[] => {
  const names = [written].flat().map((text, index) => {
    const fault = hostFault(text.toLowerCase())
    if (fault !== undefined) say(`"${text}" ${fault}`, 'host', ...(typeof written === 'string' ? [] : [index]))
    return text.toLowerCase()
  })
  return [...new Set(names)]
}

const hostFault = (name: string): string | undefined => {
  if (name === '*') return 'would be every host: leave "host" out'
  if (name.endsWith('.')) return 'must not end in a dot'
  const bare = name.replace(/^\*\./, '')
  // Browsers write international names as A-labels, and IPv4 addresses in four parts (URL Standard, host parsing).
  const sent = URL.canParse(`http://${bare}/`) ? new URL(`http://${bare}/`).hostname : undefined
  if (/[^!-~]/.test(name) && sent !== undefined) return `must be written as requests have it: ${sent}`
  if (/:\d+$/.test(name)) return 'must be written without its port: every port counts'
  if (!NAME.test(name) || sent === undefined)
    return 'is no host name such as grafana.corp.example, or *.corp.example for exactly one label in place of *'
  return sent === bare ? undefined : `must be written as requests have it: ${sent}`
}
