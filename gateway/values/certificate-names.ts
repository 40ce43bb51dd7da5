// Chooses among several certificates by the name that a client asks for, and knows which hosts each of them is for.
import { hostName, wildcardOf } from './host-names.ts'

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
