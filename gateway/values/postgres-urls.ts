// Splits a Postgres URL that names several hosts into one URL for each of them.

const FORM = /^(?<before>postgres(?:ql)?:\/\/(?:[^@/?#\s]*@)?)(?<hosts>[^@/?#\s]*)(?<after>[/?][^\s#]*)?$/

/** `postgres://user:password@a:5432,b:5432/name` as `…@a:5432/name` and `…@b:5432/name`; undefined: not a Postgres URL. */
export const postgresUrls = (url: string): string[] | undefined => {
  const { before, hosts, after = '' } = FORM.exec(url)?.groups ?? {}
  const urls = hosts?.split(',').map(host => `${before}${host}${after}`)
  return urls?.every(each => URL.canParse(each)) === true ? urls : undefined
}
