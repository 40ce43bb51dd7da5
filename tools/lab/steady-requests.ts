// Sends steady requests while something is replaced, and counts those that fail.
import { equal } from 'node:assert/strict'
import http from 'node:http'

const EVERY_MS = 20

/** One request on a connection of its own: `200`, or what went wrong. */
export const ask = (url: string, method = 'GET'): Promise<string> =>
  new Promise(resolve => {
    const request = http.request(url, { method, agent: false })
    request.on('response', answer =>
      answer.resume().on('close', () => resolve(answer.complete ? String(answer.statusCode) : 'cut off'))
    )
    request.on('error', error => resolve(error.message))
    request.end(method === 'POST' ? 'a=b' : undefined)
  })

/** 25 GET and 25 POST requests a second while `act` runs, whatever becomes of those before; the outcomes that are not 200. */
export const sendDuring = async (url: string, act: () => Promise<unknown>) => {
  const sent: Promise<string>[] = []
  const timer = setInterval(() => sent.push(ask(url, sent.length % 2 === 0 ? 'GET' : 'POST')), EVERY_MS)
  try {
    await act()
  } finally {
    clearInterval(timer)
  }
  return { sent: sent.length, failed: (await Promise.all(sent)).filter(answer => answer !== '200') }
}

/** As what a case has seen. */
export const underRequests = async (url: string, act: () => Promise<unknown>): Promise<string> => {
  const { sent, failed } = await sendDuring(url, act)
  equal(failed.length, 0, `${failed.length} of ${sent}, such as: ${failed[0]}`)
  return `0 of ${sent} requests failed, GET and POST`
}
