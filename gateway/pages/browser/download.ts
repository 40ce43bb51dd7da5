// Saves a response of the gateway as a file.
import { type Answer, keptToken } from './session.ts'

/** Saves the body of a response as a file; the returned response then has no body. */
export const download = async (path: string, file: string): Promise<Answer<unknown>> => {
  const token = keptToken() ?? ''
  try {
    const response = await fetch(path, { headers: { authorization: `Bearer ${token}` } })
    const { status, headers } = response
    const code = response.ok ? '' : String((await response.json()).code)
    if (response.ok) {
      const link = document.createElement('a')
      link.href = URL.createObjectURL(await response.blob())
      link.download = file
      link.click()
      URL.revokeObjectURL(link.href)
    }
    return { status, code, body: {}, requestId: headers.get('x-request-id') ?? '', retryAfter: 0, etag: '' }
  } catch {
    return { status: 0, code: '', body: {}, requestId: '', retryAfter: 0, etag: '' }
  }
}
