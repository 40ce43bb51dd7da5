// Reads the options that the environment gives to Node itself, before any setting is read.

/** NODE_OPTIONS, which `process.execArgv` does not contain; `''` if it is not set. */
export const nodeOptions = (): string => process.env.NODE_OPTIONS ?? ''
