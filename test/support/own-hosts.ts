// Names the hosts of a gateway whose routes name these, besides the host of PUBLIC_URL.
import { createHostLogin } from '../../gateway/access/host-login.ts'
import { createOwnHosts } from '../../gateway/access/own-hosts.ts'

export const ownHostsOf = (publicUrl: string, ...named: string[]) => {
  const hosts = createOwnHosts(publicUrl, () => ({ hosts: named, namesHost: name => named.includes(name) }))
  return { hosts, hostLogin: createHostLogin({ publicUrl, secrets: ['s'], hosts }) }
}
