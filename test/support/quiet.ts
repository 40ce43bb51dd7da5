// A log that keeps silent, for parts that want one.

export const quiet = { info() {}, warn() {}, error() {} }
