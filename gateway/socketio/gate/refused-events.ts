// Counts the Socket.IO events that were refused, by route and namespace as the route files name them.

interface RefusedEvents {
  readonly route: string
  readonly namespace: string
  readonly count: number
}

export const createRefusedEvents = () => {
  // At most as many keys as the files contain.
  const counts = new Map<string, number>()
  return {
    count(route: string, namespace: string) {
      const key = JSON.stringify([route, namespace])
      counts.set(key, (counts.get(key) ?? 0) + 1)
    },
    list: (): RefusedEvents[] =>
      Array.from(counts, ([key, count]) => {
        const [route, namespace] = JSON.parse(key) as [string, string]
        return { route, namespace, count }
      })
  }
}
