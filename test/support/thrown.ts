// Throws again what a gateway's callback has thrown, for tests of parts in which nothing may throw.
export const onThrown = (error: unknown): never => {
  throw error
}
