// Classifies each request field name once: what it means to the gateway, and whether a client may send it upstream; names fields of caches.
import { remembered } from '../values/bounded-map.ts'

const words = (text: string): string[] => text.trim().split(/\s+/)

/** Not read by the gateway; forwarded. */
export const PASS = 'pass'
/** Never forwarded: identity, forwarding, method-override and hop-by-hop fields in any spelling. */
export const DROP = 'drop'

/** Names the gateways that a request has passed. Via (RFC 9110 §7.6.3) would serve, but makes some backends stop compressing. */
export const LOOP_FIELD = 'x-portaria-via'

/**
 * Fields that are read by the gateway, which decides whether each is forwarded: where the value is kept, and what joins several;
 * without that, the last one counts. Expect is answered here (RFC 9110 §10.1.1).
 */
export const READ_FIELDS = {
  host: ['host'],
  authorization: ['authorization'],
  connection: ['connection', ','],
  'transfer-encoding': ['transferEncoding'],
  'content-length': ['contentLength', ', '],
  'x-forwarded-for': ['forwardedFor', ', '],
  'x-forwarded-proto': ['forwardedProto', ','],
  'x-forwarded-host': ['forwardedHost', ','],
  'x-request-id': ['requestId'],
  cookie: ['cookie', '; '],
  te: ['te', ', '],
  origin: ['origin'],
  accept: ['accept', ', '],
  // Sec-Fetch-Site (Fetch Metadata Request Headers §2.3).
  'sec-fetch-site': ['fetchSite'],
  upgrade: ['upgrade'],
  // The gateways that this request has passed, by the names they give themselves.
  [LOOP_FIELD]: ['passed', ', '],
  expect: ['expect', ', '],
  'max-forwards': ['maxForwards', ', '],
  traceparent: ['traceparent', ', '],
  // What a COPY or MOVE writes to (RFC 4918 §10.3).
  destination: ['destination', ', ']
} as const

/** What a field name means to the gateway: its own name in lower case if it is read here. */
type FieldKind = typeof PASS | typeof DROP | keyof typeof READ_FIELDS

const KINDS = new Map((Object.keys(READ_FIELDS) as FieldKind[]).map((name): [string, FieldKind] => [name, name]))
// A hint that the pages of Next.js send; the other `X-Middleware-*` are removed.
KINDS.set('x-middleware-prefetch', PASS)

// RFC 9110 §7.6.1 and its predecessors.
const HOP_BY_HOP = words('keep-alive proxy-connection proxy-authorization proxy-authenticate trailer http2-settings')

// Names under which proxies and content delivery networks send client addresses.
const ADDRESSES = words(`
  forwarded forwarded-for forwarded-for-ip x-forwarded x-forward-for x-original-forwarded-for x-vercel-forwarded-for client-ip
  x-client-ip x-real-client-ip x-cluster-client-ip true-client-ip x-true-client-ip real-ip x-real-ip x-originating-ip
  x-proxyuser-ip proxy-client-ip cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 do-connecting-ip fastly-client-ip
  fly-client-ip incap-client-ip x-sucuri-clientip x-azure-clientip x-azure-socketip x-appengine-user-ip x-nf-client-connection-ip
  ali-cdn-real-ip cdn-src-ip cloudfront-viewer-address
`)

// Names under which other gateways and servers pass identity (Azure, OpenSearch, SiteMinder, WebSEAL, Oracle Access Manager, APISIX,
// AuthCrunch, Puppet, Keycloak behind HAProxy, Google's API gateways, Kong, Gatekeeper, Teleport); `Proxy` is for httpoxy.
const FOREIGN_IDENTITY = words(`
  x-proxy-user x-proxy-roles x-sso-user sm-user sm-userdn sm-universalid iv-user iv-groups iv-creds oam-remote-user osso-user-dn
  osso-user-guid client-cert client-cert-chain x-client-dn x-client-verify x-userinfo x-endpoint-api-userinfo
  x-apigateway-api-userinfo x-anonymous-consumer x-auth-userid x-auth-username x-auth-email x-auth-subject x-auth-roles
  x-auth-groups x-token-subject x-arr-clientcert teleport-jwt-assertion proxy
`)

// Fields from which backends take the host or the scheme, even if a client sent them, and those in which proxies describe a request.
const SPOOFABLE = words(`
  x-original-host x-original-method x-original-url x-original-uri front-end-https x-host x-scheme x-url-scheme x-proxied-https
  cf-visitor cloudfront-forwarded-proto x-arr-ssl proxy-auth-cert proxy-ssl-id x-proxyscheme x-proxyhost x-proxyport
  x-proxycontextpath
`)

// Fields by which a backend serves another path or method than the one requested. gunicorn takes `Script-Name` off the path that it
// hands to the application, Next.js finds the page by `X-Matched-Path`, Rack sends the file that `X-Accel-Mapping` leads to, ASP.NET
// takes what `AspFilterSessionId` contains off the path.
const MISLEADING = words(`
  script-name path-info x-script-name x-matched-path x-now-route-matches x-sendfile-type x-accel-mapping aspfiltersessionid
  x-override-url x-rewrite-url x-http-method x-http-method-override x-method-override
`)
// Next.js's requests to itself: some releases skip the checks of their middleware for them (CVE-2025-29927).
const MISLEADING_PREFIXES = ['x-middleware-', 'x-invoke-']

const dropped = new Set([...HOP_BY_HOP, ...ADDRESSES, ...FOREIGN_IDENTITY, ...SPOOFABLE, ...MISLEADING])
const DROPPED_PREFIXES = [
  ...MISLEADING_PREFIXES,
  ...words('x-user- x-forwarded- x-request-id x-ratelimit-'),
  // Grafana's auth proxy, oauth2-proxy, AWS, Google, Azure App Service, Pomerium, Cloudflare, Tailscale, authentik, Kong, Vouch.
  ...words(`x-webauth- x-auth-request- x-amzn-oidc- x-amzn-mtls- x-amzn-ava- x-goog-iap- x-goog-authenticated-user-
    x-ms-client-principal x-ms-token- x-pomerium- cf-access- cf-cert- cf-client-cert- tailscale-user- tailscale-app- x-authentik-
    x-consumer- x-credential- x-authenticated- x-vouch-`),
  // Apache and Authelia (NetBox reads Remote-User-Group), mod_auth_openidc, Shibboleth, AuthCrunch, Kubeflow, CouchDB, NiFi.
  ...words(`remote- oidc-claim- oidc-access-token oidc-id-token oidc-userinfo shib- x-token-user- kubeflow- x-auth-couchdb-
    x-proxiedentit`),
  // Kubernetes, and addresses.
  ...words('x-remote- impersonate-'),
  // WebLogic, WebSphere (`$WSRU`), IIS in front of ASP.NET Core, Envoy.
  ...words('wl-proxy- -ws ms-aspnetcore- x-envoy- ssl-client- x-ssl- x-tls-client- x-client-cert cert-chain')
]

/** Names of cookies that only the gateway may set and read. */
export type OwnCookies = Pick<ReadonlySet<string>, 'has'>

/** Replaces every byte outside `[a-z0-9]` with `-`, as CGI, WSGI and PHP map several spellings to one variable. */
const collapse = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, '-')

/** The name that a lax backend reads: some ask for a field by the name of its CGI variable, such as `HTTP_X_FORWARDED_FOR`. */
export const readLaxly = (name: string): string => collapse(name).replace(/^http-/, '')

/** The name of what it means to a service behind grpc-gateway: metadata, to which `Grpc-Metadata-X-User-Id` adds like `X-User-Id`. */
export const readAsMetadata = (name: string): string => readLaxly(name).replace(/^grpc-metadata-/, '')

const classify = (name: string): FieldKind => {
  const lower = name.toLowerCase()
  const known = KINDS.get(lower)
  if (known !== undefined) return known
  const read = readLaxly(lower)
  const metadata = readAsMetadata(lower)
  if (dropped.has(metadata)) return DROP
  if (DROPPED_PREFIXES.some(prefix => metadata.startsWith(prefix))) return DROP
  // Another spelling of a field that the gateway itself writes or reads (X_Forwarded_For, Content.Length, …).
  return read !== lower && KINDS.has(read) ? DROP : PASS
}

/** A proxy that asks writes it itself, but in this spelling only. */
const PROXYS_OWN = 'x-original-url'
/** A proxy that asks removes or replaces these, but knows no other spellings, such as PHP's `X.User.Id`. */
const PROXY_REMOVES = /^x[-_]user[-_]/i

/** Whether a backend may serve another path, method or person because of a field, however its name is spelt. */
export const misleads = (name: string): boolean => {
  const read = readAsMetadata(name)
  if (read.startsWith('x-user-') && !PROXY_REMOVES.test(name)) return true
  if (MISLEADING.includes(read) || (read === PROXYS_OWN && name.toLowerCase() !== PROXYS_OWN)) return true
  return MISLEADING_PREFIXES.some(prefix => read.startsWith(prefix)) && !KINDS.has(read)
}

export const headerKind = remembered(classify)

/** Response fields that shared caches obey instead of Cache-Control: RFC 9213 and its predecessors. */
export const SHARED_CACHE_FIELDS: readonly string[] = [
  'surrogate-control',
  'x-accel-expires',
  'edge-control',
  'akamai-cache-control',
  'x-litespeed-cache-control'
]

/** Each of these caches has a field of its own as well, such as `Cloudflare-CDN-Cache-Control`. */
export const SHARED_CACHE_SUFFIX = 'cdn-cache-control'
