// Measures work in CPU time of this process: what else the machine does does not count.

/** Milliseconds of CPU, of the kernel's included, from now until the function that it returns is called. */
export const measureWork = (): (() => number) => {
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return Math.round((user + system) / 1000)
  }
}
