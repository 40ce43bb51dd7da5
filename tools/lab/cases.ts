// Tries a case at a system by itself and through the gateway, and reports where the two differ.
import { stripVTControlCharacters } from 'node:util'
import { messageOf } from './table.ts'

export interface ComparedCase<Place> {
  readonly name: string
  /** What happened, in one line. */
  run(place: Place): Promise<string>
  /** Where the gateway is meant to differ from the system by itself: what happens then, and why. */
  readonly contract?: { readonly through: string; readonly because: string }
}

export interface Outcome {
  readonly isRight: boolean
  /** Cells of the table: directly, through Portaria. */
  readonly cells: readonly [string, string]
}

const outcomeOf = (run: Promise<string>): Promise<string> =>
  run.catch(error => {
    const message = stripVTControlCharacters(messageOf(error))
    return `fails: ${message.trim().split('\n').at(-1)?.trim()}`
  })

/** @param places the system by itself, and the same through the gateway */
export const compare = async <Place>(tried: ComparedCase<Place>, places: readonly [Place, Place]): Promise<Outcome> => {
  const direct = await outcomeOf(tried.run(places[0]))
  const through = await outcomeOf(tried.run(places[1]))
  const wanted = tried.contract?.through ?? direct
  // What fails without the gateway too was not tried.
  const isRight = through === wanted && !direct.startsWith('fails')
  const reason = tried.contract === undefined ? '' : `: ${tried.contract.because}`
  if (!isRight) return { isRight, cells: [direct, `DIFFERS: ${through}`] }
  return { isRight, cells: [direct, through === direct ? 'the same' : through + reason] }
}
