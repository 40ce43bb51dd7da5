// Runs Helm on the chart, and checks what it makes against the schemas of Kubernetes: `npm run lab -- helm`.
import { equal, match, rejects } from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../../test/support/server-process.ts'
import { withTeardown } from '../teardown.ts'
import { type Case, tryInstalling } from './cases.ts'
import { goProgram, pip } from './installed.ts'
import { outputOf, stdoutOf } from './program.ts'

const ROOT = join(import.meta.dirname, '../..')
const CHART = 'deploy/helm/portaria'
const MANIFEST = 'deploy/kubernetes/portaria.yaml'
const HELM = { module: 'helm.sh/helm/v3', version: 'v3.17.3' }
const KUBERNETES = '1.37.0'

interface Tools {
  helm(...words: string[]): Promise<string>
  /** Throws unless a manifest fits the schemas strictly; returns the kinds without a schema. */
  validate(manifest: string): Promise<string[]>
}

/** Values with which the chart makes something else than by default. */
const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  'everything off': [
    '--set=podDisruptionBudget.enabled=false,networkPolicy.enabled=false',
    '--set=routes.configMap=mine,secrets.keys.REDIS_URL=null,secrets.keys.DATABASE_URL=null,replicas=1'
  ],
  'everything on': [
    '--set=autoscaling.enabled=true,serviceMonitor.enabled=true,serviceMonitor.labels.release=prometheus,createNamespaces=true',
    '--set=networkPolicy.backends={orders,messaging},imagePullSecrets[0].name=registry,image.tag=next,service.type=LoadBalancer'
  ],
  'a certificate, and where pods run': [
    '--set=extraVolumes[0].name=ca,extraVolumes[0].configMap.name=ca,extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/ca',
    '--set=settings.LDAP_CA_FILE=/ca/ca.pem,nodeSelector.disk=ssd,tolerations[0].operator=Exists,affinity.podAntiAffinity=null',
    '--set-string=podAnnotations.note=7'
  ]
}

/** What a mistake in the values must be refused for. */
const MISTAKES: readonly (readonly [value: string, reason: RegExp])[] = [
  ['settings.RATE_LIMIT_MAX=300', /Expected: string, given: integer/],
  ['settings.OPS_PORT=9091', /settings/],
  ['secrets.keys=null', /keys/],
  ['replica=3', /Additional property replica is not allowed/],
  ['routes.files.orders=x', /routes\.files/],
  ['settings.PUBLIC_URL=', /settings\.PUBLIC_URL is required/]
]

const template = (words: readonly string[]) => [
  'template',
  'portaria',
  CHART,
  '--namespace=portaria',
  `--kube-version=${KUBERNETES}`,
  '--values=deploy/kubernetes/values.yaml',
  ...words
]

const cases: readonly Case<Tools>[] = [
  {
    name: '`helm lint --strict` of the chart',
    async run({ helm }) {
      match(await helm('lint', '--strict', CHART), /0 chart\(s\) failed/)
      return 'no warning'
    }
  },
  {
    name: '`helm template` with four sets of values, against the schemas of Kubernetes',
    async run({ helm, validate }) {
      const unknown: string[] = []
      for (const words of [[], ...Object.values(VARIANTS)])
        unknown.push(...(await validate(await helm(...template(words)))))
      return `valid (\`kubernetes-validate --strict\`); ${[...new Set(unknown)].join(', ')}: not checked, there is no schema`
    }
  },
  {
    name: 'Mistakes in the values: a number as a setting, a setting of the chart, no secret, an unknown value, no PUBLIC_URL',
    async run({ helm }) {
      for (const [value, reason] of MISTAKES) await rejects(helm(...template(['--set', value])), reason)
      return 'refused, with the name of the value'
    }
  },
  // RV-128
  {
    name: 'The plain manifest',
    async run({ helm, validate }) {
      const made = await helm(...template([]))
      await validate(made)
      const differs = `it differs; run: helm ${template([]).join(' ')} > ${MANIFEST}`
      equal(made, readFileSync(join(ROOT, MANIFEST), 'utf8'), differs)
      return 'is what the chart makes'
    }
  }
]

/** Resolves to how many cases did not work. */
export const runHelm = (): Promise<number> =>
  withTeardown(async t => {
    const program = await goProgram('helm', HELM.module, HELM.version, '/cmd/helm')
    const python = await pip({ 'kubernetes-validate': KUBERNETES })
    const folder = makeFolder(t, 'helm')
    const env = { ...process.env, HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder }
    const tools: Tools = {
      helm: (...words) => stdoutOf(program, words, { cwd: ROOT, env }),
      async validate(manifest) {
        const file = join(folder, 'manifest.yaml')
        writeFileSync(file, manifest)
        const said = await outputOf(join(python, 'kubernetes-validate'), ['--strict', file])
        return [...said.matchAll(/find schema for kind (\w+)/g)].map(([, kind = '']) => kind)
      }
    }
    return tryInstalling(cases, tools, `Helm ${HELM.version.slice(1)}, Kubernetes ${KUBERNETES.slice(0, 4)}`)
  })
