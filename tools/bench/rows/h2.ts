// A request over HTTP/2 stands beside HAProxy and nginx with the same checks, and beside Caddy without any.
import { compared, type GroupResult, startOrNote } from '../group.ts'
import { interleave, requests } from '../measure.ts'
import { startCaddy } from '../peers/caddy.ts'
import { issueCertificate } from '../peers/certificate.ts'
import { startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import type { World } from '../world.ts'

export const measureH2 = async (world: World): Promise<GroupResult> => {
  const notes = [
    'h2load: ten streams at once on each connection, which are kept; HAProxy and nginx tell the upstream in one header; Caddy checks nothing'
  ]
  const certificate = await issueCertificate(world)
  const { pemFile, env } = certificate
  const peers = {
    Portaria: await startGateway(world, { env }),
    HAProxy: await startOrNote('HAProxy', notes, () => startHaproxy(world, { pemFile })),
    nginx: await startOrNote('nginx', notes, () => startNginx(world, world.upstream.checkedPort, certificate)),
    'Caddy, no checks': await startOrNote('Caddy', notes, () => startCaddy(world, certificate))
  }
  const subjects = Object.entries(peers).flatMap(([name, peer]) =>
    peer === undefined
      ? []
      : [{ ...requests(world, peer, { name: `HTTP/2 at ${name}`, scheme: 'https' }), isHttp2: true }]
  )
  const rows = await interleave(world, subjects)
  const of = (name: keyof typeof peers) => rows.find(row => row.name === `HTTP/2 at ${name}`)
  return {
    rows,
    findings: [
      ...compared('h2-vs-haproxy', of('Portaria'), of('HAProxy')),
      ...compared('h2-vs-nginx', of('Portaria'), of('nginx'))
    ],
    notes
  }
}
