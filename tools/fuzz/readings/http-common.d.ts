// Declares the parser of node:http, which its own server uses in the same way:
declare module 'node:_http_common' {
  /** By the parser's numbers. */
  const methods: readonly string[]
  type Callback = (...values: never[]) => number | undefined
  class HTTPParser {
    static readonly REQUEST: number
    static readonly RESPONSE: number
    static readonly kOnHeaders: number
    static readonly kOnHeadersComplete: number
    static readonly kOnBody: number
    static readonly kOnMessageComplete: number;
    [callback: number]: Callback
    initialize(type: number, resource: object, maxHeaderSize: number, lenient: number): void
    /** Bytes taken, or what is wrong. */
    execute(bytes: Buffer): number | Error
    finish(): Error | undefined
  }
}
