// Every request is counted in a window that its key's first request opened.

export interface Verdict {
  allowed: boolean
  limit: number
  remaining: number
  resetMs: number
}

export interface Limiter {
  take(name: string, key: string, max: number, windowMs: number): Verdict | Promise<Verdict>
  status(): { mode: 'memory' | 'redis' | 'degraded' }
  close(): Promise<void>
}

export const createLimiter = (_options: { redis?: unknown; log: unknown }): Limiter => {
  const windows = new Map<string, { used: number; endsAt: number }>()
  return {
    take(name, key, max, windowMs) {
      const now = performance.now()
      let window = windows.get(`${name} ${key}`)
      if (window === undefined || window.endsAt <= now) {
        window = { used: 0, endsAt: now + windowMs }
        windows.set(`${name} ${key}`, window)
      }
      window.used++
      return {
        allowed: window.used <= max,
        limit: max,
        remaining: Math.max(0, max - window.used),
        resetMs: window.endsAt - now
      }
    },
    status: () => ({ mode: 'memory' }),
    close: async () => undefined
  }
}
