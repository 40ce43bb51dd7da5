// Turns views written as HTML into elements; text always stays text.
import htm from 'htm'
import { type ComponentChildren, h, render, type VNode } from 'preact'
import { useErrorBoundary } from 'preact/hooks'

export { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
export type { ComponentChildren, VNode }
export { render }

type Bind = (create: typeof h) => (strings: TemplateStringsArray, ...values: unknown[]) => unknown

// Its types describe the CommonJS form; browsers receive the module, whose default export is the function itself.
const bound = (htm as unknown as { bind: Bind }).bind(h)

/** One element; several only if a fragment is intended. */
export const html = (strings: TemplateStringsArray, ...values: unknown[]): VNode => bound(strings, ...values) as VNode

interface BoundaryProps {
  readonly failed: () => VNode
  readonly children?: ComponentChildren
}

/** Shows something else in place of a whole page that fails while it is drawn: a component does not catch what it throws itself. */
export const Boundary = ({ failed, children }: BoundaryProps): ComponentChildren => {
  const [error] = useErrorBoundary()
  return error === undefined ? children : failed()
}
