// Lets an instance know what has changed through it before the response is sent.

/**
 * The same store, whose `changes` take effect on this instance before they resolve.
 * @param catchUp reads what has changed
 */
export const knownAtOnce = <Store extends object>(
  store: Store,
  changes: readonly (keyof Store)[],
  catchUp: () => Promise<void>
): Store => {
  const known = { ...store }
  for (const name of changes) {
    const change = store[name] as unknown as (...args: unknown[]) => Promise<unknown>
    const andKnow = async (...args: unknown[]) => {
      const result = await change(...args)
      await catchUp()
      return result
    }
    Object.assign(known, { [name]: andKnow })
  }
  return known
}
