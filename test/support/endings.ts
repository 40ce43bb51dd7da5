// Ends what a program has started, as the teardown of a test does.

export const createEndings = () => {
  const endings: (() => unknown)[] = []
  return {
    teardown: (ending: () => unknown) => void endings.push(ending),
    /** What was registered last ends first. */
    async end() {
      for (const ending of endings.splice(0).reverse()) await ending()
    }
  }
}
