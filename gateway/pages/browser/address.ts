// Keeps the state of a view in the URL, so that it survives reloading, going back and sharing.
import { useState } from './render.ts'

/** `#/people/7?search=ana`: from the question mark on; '' without parameters. */
export const queryInAddress = (): string => /\?[^?]+/.exec(location.hash)?.[0] ?? ''

/** State of a view that is kept in the URL. `first` lists the values with their defaults, which are left out. */
export const useAddressed = <T extends Readonly<Record<string, string>>>(
  first: T
): readonly [T, (change: Partial<T>) => void] => {
  const [values, setValues] = useState<T>(() => {
    const query = new URLSearchParams(queryInAddress())
    const named = Object.keys(first).map(name => [name, query.get(name) ?? first[name]] as const)
    return Object.fromEntries(named) as T
  })
  const change = (part: Partial<T>) => {
    const next = { ...values, ...part }
    const query = new URLSearchParams(Object.entries(next).filter(([name, value]) => value !== first[name]))
    const path = location.hash.split('?')[0] || '#/people'
    history.replaceState(history.state, '', query.size === 0 ? path : `${path}?${query}`)
    setValues(next)
  }
  return [values, change]
}

/** A page number as it may appear in the URL. */
export const pageOf = (text: string): number => (/^[1-9]\d{0,5}$/.test(text) ? Number(text) : 1)
