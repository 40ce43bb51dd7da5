// Runs `portaria start` from the sources.
process.argv.splice(2, 0, 'start')
await import('./cli/portaria.ts')

export {}
