// Declares the WebAssembly build of llhttp that undici ships, and the parts of WebAssembly needed to run it:
declare module 'undici/lib/llhttp/llhttp_simd-wasm.js' {
  /** The module's bytes. */
  const bytes: Uint8Array
  export default bytes
}

declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array)
    static exports(module: Module): { name: string }[]
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, (...values: number[]) => number>>)
    readonly exports: object
  }
  interface Memory {
    readonly buffer: ArrayBuffer
  }
}
