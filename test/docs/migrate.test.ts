// Route files on the pages for those who come from other gateways load, and their tests pass.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { recipeText } from '../support/recipe.ts'
import { ROOT } from '../support/running-demo.ts'

for (const file of readdirSync(join(ROOT, 'docs/migrate'))) {
  const page = file.replace('.md', '')
  t.test(`the route file for those who come from ${page} loads`, async t => {
    const text = /^## After\n[\s\S]*?^```yaml\n(.*?)^```/ms.exec(recipeText(`../migrate/${page}`))?.[1] ?? ''
    t.match(text, /^routes:/m)
    const folder = t.testdir({})
    writeFileSync(join(folder, 'routes.yaml'), text)
    await t.resolves(loadRoutes(folder, ownRoutes()))
  })
}
