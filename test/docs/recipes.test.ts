// Every block of configuration in docs/recipes is run as it stands there, by the lab or by a test.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { APPS } from '../../tools/lab/apps/apps.ts'
import { ROOT } from '../support/running-demo.ts'

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const runners = [
  ...readdirSync(join(ROOT, 'tools/lab')).flatMap(file => (file.endsWith('.ts') ? [`tools/lab/${file}`] : [])),
  'test/forward/forward-auth-nginx.test.ts'
].map(read)

/** By whom the pages are run that no system of the lab has; shell is the matter of shell-lines.test.ts. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  kubernetes: 'test/deploy/kubernetes.test.ts',
  systemd: 'test/deploy/kubernetes.test.ts',
  scripts: 'test/docs/shell-lines.test.ts'
}

/** Grafana itself is not to be had: its settings are not run, only the routes for it. */
const NOT_RUN = ['grafana ini']

/** Blocks that applications of the lab run: their routes, their command and their files. */
const ofApps = APPS.flatMap(({ recipe, files = {} }) => {
  const [page = ''] = recipe.split('#')
  const blocks = Object.values(files).flatMap(({ block }) => (block === undefined ? [] : [block]))
  return [...blocks, 'yaml'].map(language => `${page} ${language}`)
})

const namesOf = (page: string) => new RegExp(`(?:recipe: |NAME = |'|\\()'?${page}'`)

t.test('every recipe is a system of the lab, or run by a test that is named', async t => {
  const index = read('docs/recipes/README.md')
  const pages = readdirSync(join(ROOT, 'docs/recipes'))
    .map(file => file.replace(/\.md$/, ''))
    .filter(page => page !== 'README')
  t.same(
    pages.filter(page => !index.includes(`(${page}.md`)),
    [],
    'the index names every page'
  )
  const notRun: string[] = []
  for (const page of pages) {
    const languages = new Set(
      [...read(`docs/recipes/${page}.md`).matchAll(/^```(\w+)$/gm)].map(([, name = '']) => name)
    )
    languages.delete('sh')
    for (const language of [...languages]) if (ofApps.includes(`${page} ${language}`)) languages.delete(language)
    if (languages.size === 0) continue
    const elsewhere = ELSEWHERE[page]
    if (elsewhere !== undefined) {
      t.match(read(elsewhere), page === 'scripts' ? /scripts/ : new RegExp(`deploy/${page}`), page)
      continue
    }
    const mine = runners.filter(text => namesOf(page).test(text))
    t.ok(mine.length > 0, `${page} is run`)
    for (const language of languages) {
      // `lab.gateway` reads the routes.
      const isRead = language === 'yaml' || mine.some(text => new RegExp(`recipeBlock\\([^)]*'${language}'`).test(text))
      if (!isRead) notRun.push(`${page} ${language}`)
    }
  }
  t.same(notRun, NOT_RUN)
})
