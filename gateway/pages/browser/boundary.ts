// Shows something else in place of a page that fails while it is drawn.
import { type ComponentChildren, useErrorBoundary, type VNode } from './render.ts'

interface BoundaryProps {
  readonly failed: () => VNode
  readonly children?: ComponentChildren
}

/** Around a whole page: a component does not catch what it throws itself. */
export const Boundary = ({ failed, children }: BoundaryProps): ComponentChildren => {
  const [error] = useErrorBoundary()
  return error === undefined ? children : failed()
}
