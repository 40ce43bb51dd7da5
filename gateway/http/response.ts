// Describes the response to one request, whatever protocol its client speaks.

/** The keep-alive time that clients may rely on; the listener honours it. */
export const CLIENT_KEEP_ALIVE_MS = 75_000

export interface ResponseTaker {
  /** Everything written has been taken. */
  onTaken(): void
}

export interface FinalHead {
  readonly status: number
  /** The standard phrase if absent; HTTP/2 has none. */
  readonly reason?: string
  /** Prebuilt field lines, each ending in CRLF. */
  readonly lines?: string
  /** Date is one of them. */
  readonly hasDate?: boolean
  /** `[name, value, …]`, already validated; includes Content-Length if the length is known. */
  readonly headers?: readonly string[]
}

/** The state of a response, and what a protocol does to write it. */
export abstract class HttpResponse {
  /** 0 until a final head has been written. */
  status = 0
  /** The response is complete. */
  isEnded = false
  /** The client's side has taken all of it. */
  isDelivered = false
  /** The client has gone, or was cut off. */
  isGone = false
  /** Whether an HTTP/1.1 connection is kept after this response. */
  keepAlive = true
  /** Only the end of the connection marks its end, as for HTTP/1.0 clients. */
  endsWithConnection = false
  /** Notified when everything written has been taken. */
  taker: ResponseTaker | undefined = undefined

  get hasBegun(): boolean {
    return this.status !== 0
  }

  /** A response in one piece. `body` is Latin-1 and matches Content-Length, except for HEAD. */
  abstract whole(head: FinalHead, body: string): void
  /** Of a response that has a body. @param bodyLength -1: unknown, so the response is framed here */
  abstract begin(head: FinalHead, bodyLength: number): void
  /** Writes more of the body. Returns false if the client does not take it; the taker is notified once it has. */
  abstract write(chunk: Buffer): boolean
  /** @param trailers field lines, each ending in CRLF; omitted if the framing does not allow them */
  abstract end(trailers?: string): void
  /** An interim response (RFC 9110 §15.2), which HTTP/1.0 clients do not know. */
  abstract interim(status: number, reason: string, lines: string): void
  /** Aborts a response that has begun, so that it does not look complete. */
  abstract abort(): void
  /** Any number of requests may get this complete response, so it is not kept for long for a client that does not take it. */
  endSoon(): void {
    // A connection of HTTP/1.1 has one response at a time, and reads no further request before it is taken.
  }
}
