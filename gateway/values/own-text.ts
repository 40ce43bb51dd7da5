// Copies a text out of the longer one that it is a part of, for whoever keeps it beyond that.

/**
 * V8 keeps a part of a text as a reference to the whole: a remembered header value would keep the head that it came in.
 * @param text Latin-1
 */
export const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')
