// A condition comes to hold, or the test ends with what never happened.

/** Fails loudly when the condition does not hold within the time given. */
export const until = async (condition: () => boolean, what: string, ms = 5000): Promise<void> => {
  const deadline = performance.now() + ms
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
