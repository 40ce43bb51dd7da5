// The chart and the manifest for Kubernetes, and the unit for systemd agree with what the gateway reads, serves and waits for.
import { execFile, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { parseDuration } from '../../gateway/values/quantities.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (name: string) => readFileSync(join(ROOT, name), 'utf8')

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
  readonly periodSeconds: number
  readonly failureThreshold: number
}

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly data?: Readonly<Record<string, string>>
  readonly spec?: Readonly<Record<string, unknown>>
}

interface Container {
  readonly image: string
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly startupProbe: Probe
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
  readonly securityContext: object
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[]
}

interface PodSpec {
  readonly terminationGracePeriodSeconds: number
  readonly containers: readonly [Container]
  readonly volumes: readonly { readonly name: string }[]
}

const manifests = parseAllDocuments(read('deploy/kubernetes/portaria.yaml')).map(one => {
  t.same(one.errors, [])
  return one.toJS() as Manifest
})
const find = (kind: string, name: string): Manifest => {
  const found = manifests.find(one => one.kind === kind && one.metadata.name === name)
  if (found === undefined) throw new Error(`no ${kind} ${name}`)
  return found
}
const labels = { 'app.kubernetes.io/name': 'portaria', 'app.kubernetes.io/instance': 'portaria' }
const deployment = find('Deployment', 'portaria').spec as unknown as {
  readonly progressDeadlineSeconds: number
  readonly template: { readonly metadata: { readonly labels: object }; readonly spec: PodSpec }
}
const pod = deployment.template.spec
const [container] = pod.containers
const settings = find('ConfigMap', 'portaria-settings').data ?? {}

t.test('the settings of the ConfigMap are settings of the gateway, which accepts them', async t => {
  const folder = t.testdir({
    'jwt-secret': 'x'.repeat(24) + Math.PI,
    'database-url': 'postgres://u@h/d?sslmode=verify-full',
    'redis-url': 'redis://h'
  })
  const mounted = Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [name, value.replace('/etc/portaria/secrets', folder)])
  )
  const found = readSettings(mounted)
  t.same(
    found.warnings.filter(warning => !warning.includes('JWT_SECRET')),
    []
  )
  t.match(found, { port: 3000, ops: { port: 9090, host: '0.0.0.0' }, publicUrl: 'https://app.example.org' })
  const drainMs = found.drainDelayMs + found.drainTimeoutMs
  t.ok(pod.terminationGracePeriodSeconds * 1000 >= drainMs + 10_000, 'Kubernetes waits for the drain, and 10 s more')
  const ports = Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort]))
  t.same(ports, { http: found.port, ops: found.ops.port })
})

t.test('the probes ask the ops listener, and a database that is away restarts nothing', async t => {
  for (const probe of [container.startupProbe, container.readinessProbe])
    t.match(probe, { httpGet: { path: '/ready', port: 'ops' } })
  t.match(container.livenessProbe, { httpGet: { path: '/live', port: 'ops' } })
  const { periodSeconds, failureThreshold } = container.startupProbe
  const startSeconds = periodSeconds * failureThreshold
  t.ok(startSeconds >= 15 * 60, 'a first migration has as long as under systemd')
  t.ok(deployment.progressDeadlineSeconds > startSeconds, 'and the rollout does not count as failed before')
})

t.test('the pod has no more rights than it needs', async t => {
  t.match(pod, {
    enableServiceLinks: false,
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } }
  })
  t.match(container.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] }
  })
  t.match(read('Dockerfile'), /^USER 1000:1000$/m)
  for (const { name, readOnly, mountPath } of container.volumeMounts) {
    t.ok(pod.volumes.some(volume => volume.name === name))
    if (mountPath !== '/tmp') t.equal(readOnly, true, mountPath)
  }
})

t.test('selectors find the pods, and backends are reached through the gateway alone', async t => {
  t.match(deployment.template.metadata.labels, labels)
  t.same(find('Service', 'portaria').spec?.selector, labels)
  t.match(find('PodDisruptionBudget', 'portaria').spec, { maxUnavailable: 1, selector: { matchLabels: labels } })
  t.match(find('NetworkPolicy', 'portaria').spec, { podSelector: { matchLabels: labels }, policyTypes: ['Ingress'] })
  const { namespace } = find('Deployment', 'portaria').metadata
  const namespaceSelector = { matchLabels: { 'kubernetes.io/metadata.name': namespace } }
  t.strictSame(find('NetworkPolicy', 'only-through-portaria').spec, {
    podSelector: {},
    policyTypes: ['Ingress'],
    ingress: [{ from: [{ namespaceSelector, podSelector: { matchLabels: labels } }] }]
  })
})

t.test('the chart has the version of the package, and its values fit its own schema', async t => {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  t.match(parse(read('deploy/helm/portaria/Chart.yaml')), { version, appVersion: version })
  t.equal(container.image, `portaria:${version}`)
  const validate = new Ajv({ allowUnionTypes: true }).compile(
    JSON.parse(read('deploy/helm/portaria/values.schema.json')) as object
  )
  for (const file of ['deploy/helm/portaria/values.yaml', 'deploy/kubernetes/values.yaml'])
    t.ok(validate(parse(read(file))), `${file} ${JSON.stringify(validate.errors)}`)
  for (const mistake of [{ settings: { OPS_PORT: '1' } }, { settings: { WORKERS: 2 } }, { replica: 2 }])
    t.notOk(validate(mistake))
  // Where pods have IPv6 alone.
  t.ok(validate({ settings: { HOST: '::', OPS_HOST: '::' } }))
  t.match(read('deploy/helm/portaria/templates/settings.yaml'), /if not \.Values\.settings\.OPS_HOST/)
})

// The lab compares the whole manifest with what Helm makes.
t.test('the manifest has the sample values, and is scaled between two and more pods', async t => {
  const samples = parse(read('deploy/kubernetes/values.yaml'))
  t.match(settings, samples.settings)
  t.same(find('ConfigMap', 'portaria-routes').data, samples.routes.files)
  t.match(find('HorizontalPodAutoscaler', 'portaria').spec, {
    scaleTargetRef: { kind: 'Deployment', name: 'portaria' },
    minReplicas: 2
  })
  for (const { metadata } of manifests)
    if (metadata.namespace !== undefined) t.ok(find('Namespace', metadata.namespace), 'RV-128: it applies as it is')
})

t.test('the route files of the ConfigMap load and pass their own tests', async t => {
  const folder = t.testdir(find('ConfigMap', 'portaria-routes').data ?? {})
  const { table, warnings } = await loadRoutes(folder, ownRoutes())
  t.same(warnings, [])
  t.ok(table.routes.some(({ path }) => path === '/api/orders/*'))
})

const unit = read('deploy/systemd/portaria.service')
const valuesOf = (key: string) => [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value = '']) => value)

t.test('the unit waits for the drain, and hands secrets over as files', async t => {
  const [stopS = 0] = valuesOf('TimeoutStopSec').map(Number)
  t.ok(stopS * 1000 >= parseDuration('10s') + 10_000, 'DRAIN_TIMEOUT, and time to close the stores')
  for (const name of valuesOf('LoadCredential').map(value => value.split(':')[0] ?? ''))
    t.ok(valuesOf('Environment').includes(`${name.toUpperCase().replaceAll('-', '_')}_FILE=%d/${name}`), name)
  t.match(valuesOf('ExecStart'), [/^\/usr\/bin\/node --max-semi-space-size=8 dist\/portaria\.cjs start$/])
  t.match(valuesOf('ExecReload'), ['/bin/kill -HUP $MAINPID'])
})

t.test('there are descriptors for both connections of as many streams as a process may have', async t => {
  t.ok(valuesOf('LimitNOFILE').every(value => Number(value) > 2 * 50_000 + 50_000))
})

t.test('the journal drops no lines of the access log', async t => {
  t.same(valuesOf('LogRateLimitIntervalSec'), ['0'])
})

t.test('a worker that the kernel kills for want of memory does not end the others', async t => {
  t.same(valuesOf('OOMPolicy'), ['continue'])
})

if (spawnSync('which', ['systemd-analyze']).status === 0)
  t.test('systemd takes the unit as it is, and rates its exposure as low', async t => {
    const folder = t.testdir({})
    const file = join(folder, 'portaria.service')
    const program = join(folder, 'node')
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
    // The program is not installed where the tests run.
    writeFileSync(file, unit.replace(/^ExecStart=\S+/m, `ExecStart=${program}`).replace(/^Documentation=.*$/m, ''))
    const analyze = (...words: string[]) => promisify(execFile)('systemd-analyze', words)
    const { stdout, stderr } = await analyze('verify', file)
    t.equal(stdout + stderr, '')
    await analyze('security', '--offline=true', '--threshold=20', file)
  })
