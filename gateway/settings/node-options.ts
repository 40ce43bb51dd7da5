// Reads the options that the environment gives to Node itself, and makes the environment cheap to read.

/** NODE_OPTIONS, which `process.execArgv` does not contain; `''` if it is not set. */
export const nodeOptions = (): string => process.env.NODE_OPTIONS ?? ''

/** For a thread that does not use its environment: each look-up in the real one is a call into C++, in a plain object it is none. */
export const usePlainEnvironment = (): void => {
  process.env = { ...process.env }
}
