// Encodes a message for a Redis channel: the length of its JSON, the JSON, then one buffer as it is.

/** Bytes of the length. */
const PREFIX = 4

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** A Buffer in the property `bytes` of its body is not turned into JSON. */
export const encodeFrame = (message: { readonly from: string; readonly body?: unknown }): Buffer => {
  const { body } = message
  const bytes = isRecord(body) && Buffer.isBuffer(body.bytes) ? body.bytes : undefined
  const plain = bytes === undefined ? message : { ...message, body: { ...(body as object), bytes: true } }
  const json = Buffer.from(JSON.stringify({ ...plain, hasBytes: bytes !== undefined }))
  const prefix = Buffer.alloc(PREFIX)
  prefix.writeUInt32BE(json.length)
  return Buffer.concat(bytes === undefined ? [prefix, json] : [prefix, json, bytes])
}

/** undefined: it is not a frame. The bytes are a part of the given buffer. */
export const decodeFrame = (frame: Buffer): Record<string, unknown> | undefined => {
  if (frame.length < PREFIX) return undefined
  const end = PREFIX + frame.readUInt32BE()
  try {
    const message: unknown = JSON.parse(frame.toString('utf8', PREFIX, end))
    if (!isRecord(message)) return undefined
    if (message.hasBytes === true && isRecord(message.body)) message.body.bytes = frame.subarray(end)
    return message
  } catch {
    return undefined
  }
}
