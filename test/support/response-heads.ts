// Reads the head of an upstream's response from text.
import { type ResponseHead, readResponseHead } from '../../gateway/upstream/parser.ts'

/** @param lines status line and fields, each with its line end; Latin-1 */
export const parseHead = (lines: string, method: string): ResponseHead => {
  const found = readResponseHead(Buffer.from(`${lines}\r\n`, 'latin1'), method)
  if (found === undefined) throw new Error('an incomplete head')
  return found.head
}
