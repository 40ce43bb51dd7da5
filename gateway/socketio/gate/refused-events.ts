// Counts the Socket.IO events that were refused, by route and namespace as the route files name them.

export const createRefusedEvents = () => {
  // At most as many keys as the files contain.
  const counts = new Map<string, { route: string; namespace: string; count: number }>()
  return {
    count(route: string, namespace: string) {
      const key = JSON.stringify([route, namespace])
      const count = (counts.get(key)?.count ?? 0) + 1
      counts.set(key, { route, namespace, count })
    },
    list: () => [...counts.values()]
  }
}
