// The demo provider's sessions and codes are kept in memory until they expire.

interface Payload {
  readonly uid?: string
  readonly grantId?: string
  consumed?: number
}

interface Entry {
  readonly payload: Payload
  readonly expiresAt: number
}

const MAX_ENTRIES = 10_000

/** An `adapter` factory for oidc-provider: one store for each kind of thing, all of one provider. */
export const createStorage = () => {
  const entries = new Map<string, Entry>()
  const live = (key: string): Payload | undefined => {
    const entry = entries.get(key)
    if (entry !== undefined && entry.expiresAt > Date.now()) return entry.payload
    entries.delete(key)
    return undefined
  }
  const makeRoom = () => {
    const oldest = entries.keys().next().value
    if (entries.size >= MAX_ENTRIES && oldest !== undefined) entries.delete(oldest)
  }

  return (kind: string) => {
    const keyOf = (id: string) => `${kind}:${id}`
    return {
      upsert: async (id: string, payload: Payload, expiresInS?: number) => {
        makeRoom()
        entries.set(keyOf(id), { payload, expiresAt: Date.now() + (expiresInS ?? 3600) * 1000 })
      },
      find: async (id: string) => live(keyOf(id)),
      findByUid: async (uid: string) => {
        const found = [...entries].find(([key, { payload }]) => key.startsWith(`${kind}:`) && payload.uid === uid)
        return found === undefined ? undefined : live(found[0])
      },
      findByUserCode: async () => undefined,
      consume: async (id: string) => {
        const payload = live(keyOf(id))
        if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1000)
      },
      destroy: async (id: string) => {
        entries.delete(keyOf(id))
      },
      revokeByGrantId: async (grantId: string) => {
        for (const [key, { payload }] of entries) if (payload.grantId === grantId) entries.delete(key)
      }
    }
  }
}
