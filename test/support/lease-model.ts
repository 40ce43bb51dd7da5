// Models the lease script in TypeScript, so that it can be run under any interleaving and compared with the script.
import { LEASE_MS, type LeaseReply, type LeaseRequest } from '../../gateway/limits/leases.ts'

const newShare = (first: number) => ({ sequence: -1, first, lent: 0, spent: 0 })
const newWindow = (generation: number, end: number) => {
  const shares = new Map<string, ReturnType<typeof newShare>>()
  return { generation, end, taken: 0, unspent: 0, aliveUntil: 0, shares }
}

/** A Redis that holds one key. */
export const createLeaseModel = () => {
  let state: ReturnType<typeof newWindow> | undefined
  const opened: { generation: number; from: number; end: number }[] = []

  const openWindow = (request: LeaseRequest, ours: boolean, windowMs: number, now: number) => {
    let end = now + windowMs
    if (ours) end = Math.min(request.generation, end)
    else if (request.leftMs > 0) end = Math.min(now + request.leftMs, end)
    const generation = ours ? request.generation : end
    opened.push({ generation, from: now, end })
    return newWindow(generation, end)
  }

  const run = (now: number, instance: string, max: number, windowMs: number, request: LeaseRequest): LeaseReply => {
    const { sequence } = request
    const isPast = request.generation !== 0 && request.generation <= now
    const generation = isPast ? 0 : request.generation
    let { spent, keep } = isPast ? { spent: 0, keep: 0 } : request
    if (state === undefined || state.end <= now) state = openWindow(request, generation !== 0, windowMs, now)
    const window = state
    window.end = Math.min(window.end, now + windowMs)
    const share = window.shares.get(instance) ?? newShare(sequence)
    let granted = 0
    if (sequence > share.sequence) {
      if (generation !== window.generation) {
        if (share.first < request.unheard) spent += share.lent
        keep = 0
      }
      window.taken += spent + keep - share.lent
      window.unspent = Math.max(0, window.unspent - (share.lent - share.spent)) + keep
      granted = Math.max(0, Math.min(request.waiting, max - window.taken))
      const reserve = Math.max(0, Math.min(request.extra, Math.floor((max - window.taken - granted) / 4)))
      Object.assign(share, { sequence, lent: spent + keep + granted + reserve, spent: spent + granted })
      window.shares.set(instance, share)
      window.taken += granted + reserve
      window.unspent += reserve
      if (share.lent > share.spent) window.aliveUntil = now + LEASE_MS
    }
    const held = now < window.aliveUntil ? Math.max(0, window.unspent - (share.lent - share.spent)) : 0
    return {
      generation: window.generation,
      nowMs: now,
      remainingMs: window.end - now,
      spent: share.spent - granted,
      lent: share.lent,
      others: Math.max(0, window.taken - share.lent - held),
      free: Math.max(0, max - window.taken),
      held
    }
  }

  return {
    run,
    opened,
    flush: () => {
      state = undefined
    }
  }
}
