// Counts the Socket.IO events that were refused, by route and namespace as the route files name them.
import type { RouteTable } from '../../routes/route.ts'

export const createRefusedEvents = () => {
  // At most as many keys as the files contain.
  const counts = new Map<string, { route: string; namespace: string; count: number }>()
  return {
    count(route: string, namespace: string) {
      const key = JSON.stringify([route, namespace])
      const count = (counts.get(key)?.count ?? 0) + 1
      counts.set(key, { route, namespace, count })
    },
    /** A new table is in use: drops the routes and namespaces that it no longer contains. */
    retain({ routes }: RouteTable) {
      const kept = new Set(
        routes.flatMap(({ id, socketio }) => socketio?.namespaces.map(({ name }) => JSON.stringify([id, name])) ?? [])
      )
      for (const key of counts.keys()) if (!kept.has(key)) counts.delete(key)
    },
    list: () => [...counts.values()]
  }
}
