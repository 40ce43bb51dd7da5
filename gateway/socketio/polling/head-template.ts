// Writes the head of a poll or post before it is known which target and which length it is for: its session may be elsewhere.
import type { Target } from '../../routes/upstream.ts'

// Neither can occur in a request (RFC 9112 §3, RFC 9110 §5.5).
const AUTHORITY = '\0'
const LENGTH = '\x01'

/** @param write returns the start of the head for this authority and these framing lines */
export const headTemplate = (method: string, write: (authority: string, framing: string) => string): string =>
  `${write(AUTHORITY, method === 'POST' ? `content-length: ${LENGTH}\r\n` : '')}\r\n`

export const fillHead = (template: string, { authority }: Target, length = 0): string =>
  template.replace(AUTHORITY, authority).replace(LENGTH, String(length))
