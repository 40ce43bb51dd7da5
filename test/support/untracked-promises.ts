// Keeps tap from following every promise of a test's process: it does so to know whose an error is that nothing catches.
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const { createHook } = hooks

// A twentieth of the work of a file in which a gateway runs. Timers and sockets are followed; what fails, fails the file.
hooks.createHook = callbacks => createHook({ trackPromises: false, ...callbacks })
syncBuiltinESMExports()
