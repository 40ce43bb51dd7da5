// Administrators see one state of all instances, and whose is worse.
import t from 'tap'
import { mergeStatus } from '../../gateway/admin/merged-status.ts'
import type { OwnStatus } from '../../gateway/admin/own-status.ts'

t.test('the state of several instances is the sum of what is counted and the worst of what can be wrong', async t => {
  const faults = { reset: 1, 'bad-response': 0, timeout: 0, unreachable: 0 }
  const target = { url: 'http://a', state: 'up' as const, since: 's', reason: '', busy: 1, connections: 2, faults }
  const well: OwnStatus = {
    status: 'ok',
    checks: { database: 'ok', directory: 'insecure', audit: 'unknown' },
    startedAt: '2026-01-02T00:00:00.000Z',
    upstreams: [{ name: 'up', targets: [target] }],
    limiter: { mode: 'redis', since: 's', reason: '', commands: 3, entries: 4, forgotten: 1, leases: 5 },
    reload: { ok: true, loadedAt: 'l', checksum: 'c', routes: 9, complaints: [] },
    audit: { state: 'unknown', entries: 0, firstBroken: null, checkedAt: '' },
    revocations: { known: 2, stalenessMs: 10 },
    streams: { websocket: 1, sse: 2 },
    insecure: ['LDAP_INSECURE']
  }
  const unwell: OwnStatus = {
    ...well,
    status: 'degraded',
    checks: { database: 'degraded', directory: 'ok', audit: 'broken' },
    startedAt: '2026-01-01T00:00:00.000Z',
    upstreams: [{ name: 'up', targets: [{ ...target, state: 'down', reason: 'refused' }] }],
    limiter: { ...well.limiter, mode: 'degraded', reason: 'timeout' },
    reload: { ...well.reload, ok: false },
    revocations: { known: 3, stalenessMs: 5 }
  }
  const merged = {
    status: 'degraded',
    checks: { database: 'degraded', directory: 'insecure', audit: 'broken' },
    startedAt: '2026-01-01T00:00:00.000Z',
    upstreams: [
      {
        targets: [{ url: 'http://a', state: 'down', reason: 'refused', busy: 2, connections: 4, faults: { reset: 2 } }]
      }
    ],
    limiter: { mode: 'degraded', reason: 'timeout', commands: 6, entries: 8, forgotten: 2, leases: 10 },
    reload: { ok: false },
    revocations: { known: 3, stalenessMs: 10 },
    streams: { websocket: 2, sse: 4 }
  }
  const [one, two] = [
    { name: 'a:1', body: well },
    { name: 'b:2', body: unwell }
  ]
  t.match(mergeStatus(well, [one, two], []), merged)
  t.match(mergeStatus(unwell, [two, one], []), merged)
  t.match(mergeStatus(well, [one], ['c:3']), { ...well, missing: ['c:3'] })
  const { upstreams, instances } = mergeStatus(well, [one, two], [])
  t.same(upstreams[0]?.targets[0]?.instances, ['b:2'], 'who sees it in this state')
  t.match(instances, [
    { instance: 'a:1', status: 'ok', limiter: 'redis', checksum: 'c', checks: well.checks },
    { instance: 'b:2', status: 'degraded', limiter: 'degraded', checks: unwell.checks }
  ])
})
