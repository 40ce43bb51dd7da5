// Percent-encodes the bytes that a URL may not contain (RFC 3986 §2.1).

/** @param text Latin-1, one character per byte */
export const encodeRawBytes = (text: string): string =>
  text.replace(/[^!-~]/g, byte => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
