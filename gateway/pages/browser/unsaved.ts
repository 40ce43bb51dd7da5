// Asks before unsaved changes are lost.
import { useLayoutEffect } from './render.ts'

const unsaved = new Set<symbol>()

export const hasUnsaved = (): boolean => unsaved.size > 0

/** From now on nothing on this page counts as unsaved. */
export const giveUpUnsaved = (): void => unsaved.clear()

/** Marks the page while `isUnsaved`, as soon as that shows; the browser itself asks before closing or reloading it. */
export const useUnsaved = (isUnsaved: boolean): void =>
  useLayoutEffect(() => {
    if (!isUnsaved) return
    const mark = Symbol('unsaved')
    const ask = (event: Event) => {
      if (unsaved.has(mark)) event.preventDefault()
    }
    unsaved.add(mark)
    window.addEventListener('beforeunload', ask)
    return () => {
      unsaved.delete(mark)
      window.removeEventListener('beforeunload', ask)
    }
  }, [isUnsaved])
