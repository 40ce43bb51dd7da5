// Reads bundles of certificates, chooses among several by the name that a client asks for, and knows the hosts of each.
import { X509Certificate } from 'node:crypto'
import { hostName, wildcardOf } from './urls.ts'

/** @param names of each certificate: in lower case, with their wildcards */
export const createCertificateNames = (names: readonly (readonly string[])[]) => {
  const owners = new Map<string, number>()
  for (const [index, own] of names.entries()) {
    for (const name of own) if (!owners.has(name)) owners.set(name, index)
  }
  const sets = names.map(own => new Set(own))
  return {
    /** The index of the certificate for a name (RFC 6066 §3), exact before wildcard (one label, RFC 9525 §6.3); that of the first if none is for it. */
    indexFor(serverName: string): number {
      const name = serverName.toLowerCase()
      return owners.get(name) ?? owners.get(wildcardOf(name)) ?? 0
    },
    /**
     * Whether a certificate is for a host: a name, or an address without brackets; in lower case.
     * @param index undefined: any of them
     */
    covers: (index: number | undefined, host: string): boolean =>
      sets.some((own, i) => (index === undefined || i === index) && (own.has(host) || own.has(wildcardOf(host))))
  }
}

/** `Example.org:443` → `example.org`, `[::1]:443` → `::1`: the host of an authority, as certificates name it; '' if it is malformed. */
export const certifiedName = (authority: string): string => (hostName(authority) ?? '').replace(/^\[(.*)\]$/, '$1')

/** The certificates in a PEM text; undefined if it contains none, or one that cannot be read. */
export const readCertificateBundle = (pem: string): X509Certificate[] | undefined => {
  // One that is cut off, as in a file that is still being written, is one that cannot be read.
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*(?:-----END CERTIFICATE-----)?/g) ?? []
  try {
    return blocks.length === 0 ? undefined : blocks.map(block => new X509Certificate(block))
  } catch {
    return undefined
  }
}
