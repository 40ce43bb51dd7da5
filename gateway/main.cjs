// Runs `portaria start`, or says which Node.js it needs: `main.ts` links here, so that a Node.js without type stripping can read it.
const NEEDED = 24
const [major] = process.versions.node.split('.').map(Number)
if (major !== undefined && major >= NEEDED) {
  // Before the first TypeScript file: if everything is already cached, the type stripper (20 MB) is never loaded.
  require('node:module').enableCompileCache(require('node:path').join(__dirname, '../node_modules/.cache/portaria'))
  process.argv.splice(2, 0, 'start')
  import('./cli/portaria.ts')
} else {
  process.stderr.write(
    `Portaria needs Node ${NEEDED} or later and this is ${process.version}; \`npm start\` uses the pinned one\n`
  )
  process.exitCode = 1
}
