// Logs for parts that want one: it discards what it is told, or keeps the fields of warnings and errors.

export const quiet = { info() {}, warn() {}, error() {} }

export const keepingLog = () => {
  const said: { readonly reason?: string }[] = []
  const keep = (fields: object) => void said.push(fields)
  return { said, log: { ...quiet, warn: keep, error: keep } }
}
