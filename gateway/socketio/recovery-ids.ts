// Signs the recovery ids of Socket.IO, so that one restores state only for the person to whom it was given; nothing is stored.
import { timingSafeEqual } from 'node:crypto'
import { keyedHash } from '../login/keyed-hash.ts'

export type RecoveryIds = ReturnType<typeof createRecoveryIds>

const SIGNED = /^(.{1,256})\.([\w-]{43})$/s

/** @param secrets the current one first; ids that were signed with the others are accepted too */
export const createRecoveryIds = (secrets: readonly string[]) => {
  const hashes = secrets.map(secret => keyedHash(secret, 'portaria recovery ids'))
  const signatures = (id: string, owner: string) => hashes.map(hash => hash(JSON.stringify([id, owner])))
  return {
    /** The id for a client. The same id and owner give the same text, by which a client learns that it was recovered. */
    sign: (id: string, owner: string): string => `${id}.${signatures(id, owner)[0]}`,
    /** The upstream's id; undefined: it was not given to this owner. */
    read(given: string, owner: string): string | undefined {
      const [, id = '', signature = ''] = SIGNED.exec(given) ?? []
      const isSigned = signatures(id, owner).some(
        expected =>
          expected.length === signature.length && timingSafeEqual(Buffer.from(expected), Buffer.from(signature))
      )
      return isSigned ? id : undefined
    }
  }
}
