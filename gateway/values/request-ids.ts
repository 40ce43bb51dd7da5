// Makes random request ids, several at once (UUID version 4, RFC 9562 §5.4).
import { randomFillSync } from 'node:crypto'

const RANDOM_BYTES = 16
const TEXT_LENGTH = 36
// Whatever keeps an id keeps the text of this many (own-text.ts).
const IDS_AT_ONCE = 16
const DASH = 45
const HEX = Buffer.from('0123456789abcdef')

const random = Buffer.allocUnsafeSlow(RANDOM_BYTES * 256)
const text = Buffer.alloc(TEXT_LENGTH * IDS_AT_ONCE, DASH)
let randomAt = random.length
let ids = ''
let idAt = 0

const writeId = (at: number) => {
  if (randomAt === random.length) {
    randomFillSync(random)
    randomAt = 0
  }
  let to = at
  for (let i = 0; i < RANDOM_BYTES; i++) {
    let byte = random[randomAt++] ?? 0
    if (i === 6) byte = (byte & 0x0f) | 0x40
    else if (i === 8) byte = (byte & 0x3f) | 0x80
    if (i === 4 || i === 6 || i === 8 || i === 10) to++
    text[to++] = HEX[byte >> 4] ?? 0
    text[to++] = HEX[byte & 15] ?? 0
  }
}

export const newRequestId = (): string => {
  if (idAt === ids.length) {
    for (let at = 0; at < text.length; at += TEXT_LENGTH) writeId(at)
    ids = text.toString('latin1')
    idAt = 0
  }
  idAt += TEXT_LENGTH
  return ids.slice(idAt - TEXT_LENGTH, idAt)
}
