// Keeps the state of a view in the URL, so that it survives reloading, going back and being shared.
import { useState } from './render.ts'

/** `#/people/7?search=ana`: the part after the question mark. */
export const queryInAddress = (): string => location.hash.split('?')[1] ?? ''

/** Keeps values in the address; those that are what they are without it are left out. */
const keepInAddress = (query: string): void => {
  const path = location.hash.split('?')[0] || '#/people'
  history.replaceState(history.state, '', query === '' ? path : `${path}?${query}`)
}

/** State of a view that stands in the address. `first` names the values, and says what they are without it. */
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
    keepInAddress(query.toString())
    setValues(next)
  }
  return [values, change]
}

/** A page number as an address may say it. */
export const pageOf = (text: string): number => (/^[1-9]\d{0,5}$/.test(text) ? Number(text) : 1)
