// Names the response fields that shared caches obey instead of Cache-Control: RFC 9213 and its predecessors.

export const SHARED_CACHE_FIELDS: readonly string[] = [
  'surrogate-control',
  'x-accel-expires',
  'edge-control',
  'akamai-cache-control',
  'x-litespeed-cache-control'
]

/** Each of these caches has a field of its own as well, such as `Cloudflare-CDN-Cache-Control`. */
export const SHARED_CACHE_SUFFIX = 'cdn-cache-control'
