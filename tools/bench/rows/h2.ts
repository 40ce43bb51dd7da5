// A request over HTTP/2 stands beside HAProxy and nginx with the same checks, and beside Caddy without any.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { accepts } from '../../../test/support/ports.ts'
import { compared, type GroupResult, startOrNote } from '../group.ts'
import { interleave, type Subject, toRow } from '../measure.ts'
import { startCaddy } from '../peers/caddy.ts'
import { launchGateway, oneRoute } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { waitUntil } from '../processes.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const subject = (world: World, name: string, peer: Peer): Subject => ({
  name: `HTTP/2 at ${name}`,
  peer,
  isHttp2: true,
  load: () => ({ url: `https://127.0.0.1:${peer.port}${BENCH_PATH}`, token: world.token })
})

export const measureH2 = async (world: World): Promise<GroupResult> => {
  const notes = [
    'h2load: ten streams at once on each connection, which are kept; HAProxy and nginx tell the upstream in one header; Caddy checks nothing'
  ]
  const issued = createCertificateAuthority(await world.folder('certificates')).issue('localhost')
  const pemFile = join(await world.folder('certificates'), 'both.pem')
  await writeFile(pemFile, (await Promise.all([issued.certFile, issued.keyFile].map(file => readFile(file)))).join(''))
  const env = { TLS_CERT_FILE: issued.certFile, TLS_KEY_FILE: issued.keyFile }
  const routes = oneRoute(world.upstream.checkedPort)
  const { gateway } = await launchGateway(world, { name: 'Portaria', counting: 'redis', routes, env })
  await waitUntil(gateway.running, () => accepts(gateway.port), 30_000)
  const haproxy = await startOrNote('HAProxy', notes, () => startHaproxy(world, 'one', 'plain', pemFile))
  const nginx = await startOrNote('nginx', notes, () => startNginx(world, world.upstream.checkedPort, issued))
  const caddy = await startOrNote('Caddy', notes, () => startCaddy(world, issued))
  const subjects = Object.entries({ Portaria: gateway, HAProxy: haproxy, nginx, 'Caddy, no checks': caddy }).flatMap(
    ([name, peer]) => (peer === undefined ? [] : [subject(world, name, peer)])
  )
  const all = await interleave(world, subjects)
  const cpu = (peer: Peer | undefined) => all.find(samples => samples.subject.peer === peer)?.cpuMicros
  if (cpu(gateway) === undefined) throw new VoidRun('the gateway was not measured')
  return {
    rows: all.map(samples => {
      const { name, columns } = toRow(samples)
      const { 'p50 ms': _median, 'p99 ms': _slowest, ...printed } = columns
      return { name, columns: printed }
    }),
    findings: [
      ...compared('h2-vs-haproxy', cpu(gateway), cpu(haproxy)),
      ...compared('h2-vs-nginx', cpu(gateway), cpu(nginx))
    ],
    notes
  }
}
