#!/usr/bin/env node
// Runs `portaria`, or says which Node.js it needs, so that an older one can read it.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major > 22 || (major === 22 && minor >= 19)) {
  require('node:module').enableCompileCache(require('node:path').join(__dirname, '../node_modules/.cache/portaria'))
  import('./portaria.js')
} else {
  process.stderr.write(`Portaria needs Node 22.19 or later and this is ${process.version}\n`)
  // As of every command that cannot run; a service manager does not start the gateway again after 1.
  process.exitCode = process.argv.includes('start') ? 1 : 2
}
