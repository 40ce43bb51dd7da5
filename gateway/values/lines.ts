// Splits text into lines, as it arrives; unlike `node:readline`, only at line feeds: JSON may contain U+2028.

/** @param longest characters; in place of a longer line comes an empty one */
export async function* linesOf(
  chunks: AsyncIterable<Buffer | string>,
  longest = Number.POSITIVE_INFINITY
): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder()
  let pending = ''
  let isTooLong = false
  for await (const chunk of chunks) {
    pending += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
    const lines = pending.split('\n')
    pending = lines.pop() ?? ''
    for (const line of lines) {
      yield isTooLong ? '' : line
      isTooLong = false
    }
    if (pending.length <= longest) continue
    pending = ''
    isTooLong = true
  }
  if (pending !== '' && !isTooLong) yield pending
  return undefined
}
