// Generates the same worlds in each run of the gate, so that it says the same twice; WORLDS_SEED names others.
import fc from 'fast-check'

fc.configureGlobal({ seed: Number(process.env.WORLDS_SEED ?? 20_262) })

export { fc }
