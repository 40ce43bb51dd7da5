// An upgrade comes from a page that may make it, or from no page at all (RFC 6455 §10.2).

interface OriginQuestion {
  /** Every Origin field sent; browsers send exactly one. */
  readonly sent: readonly string[]
  /** Origins as `new URL(…).origin` writes them. */
  readonly allowed: readonly string[]
  /** The person is known by a cookie, which browsers attach for any page. */
  readonly byCookie: boolean
}

/** Exact comparison: browsers send origins in one spelling, anything else is no browser's. `null` is never allowed. */
export const originAllowed = ({ sent, allowed, byCookie }: OriginQuestion): boolean => {
  const [origin, ...further] = sent
  if (origin === undefined) return !byCookie
  return further.length === 0 && origin !== 'null' && allowed.includes(origin)
}
