// Lists every variable that the gateway reads: its name, meaning and default, and whether it is a secret.

interface Row {
  readonly meaning: string
  /** The default as written in the environment; absent: unset. */
  readonly fallback?: string
  /** The default in words, if it is not a fixed value. */
  readonly shown?: string
  /** Its value may contain a secret; then it may also be read from the file that `<name>_FILE` names. */
  readonly secret?: true
}

const TABLE = {
  PORT: { meaning: 'Port to listen on', fallback: '3000' },
  HOST: { meaning: 'Address to listen on', fallback: '0.0.0.0' },
  PUBLIC_URL: {
    meaning: 'The origin that browsers see',
    shown: 'http://localhost:PORT; https:// with TLS_CERT_FILE'
  },
  FRONTEND_URL: {
    meaning: 'Base URL of the frontend; pages of its origin may call the gateway (CORS)',
    shown: 'PUBLIC_URL'
  },
  CORS_ORIGINS: {
    meaning: 'Further origins whose pages may call the gateway and private routes, comma-separated'
  },
  ALLOWED_HOSTS: {
    meaning:
      'Hosts that may be passed to backends as Host and X-Forwarded-Host, in addition to that of PUBLIC_URL and to those that routes name; with their ports, comma-separated; `*` allows any host',
    shown: '`*` if PUBLIC_URL is unset, otherwise none'
  },
  DATABASE_URL: {
    meaning:
      'Postgres server, `postgres://user:password@host:5432/name`; of several, `host:5432,host:5432`, the first that accepts writes is used; if unset, an embedded Postgres in DATA_DIR',
    secret: true
  },
  DATABASE_POOL_SIZE: {
    meaning: 'Connections to Postgres per process, in addition to the one that listens for changes',
    fallback: '10'
  },
  DATABASE_LISTEN_URL: {
    meaning: 'Where to send LISTEN, in the form of DATABASE_URL, if that is a pooler in transaction mode',
    shown: 'DATABASE_URL',
    secret: true
  },
  DATA_DIR: { meaning: 'Directory of the embedded database', fallback: './data' },
  REDIS_URL: {
    meaning:
      'Redis: `redis://host:6379/0`, `unix:/path?db=0`, `redis-sentinel://host:26379,host:26379/master/0` or `redis-cluster://host:6379,host:6379`; `rediss…` for TLS; if unset, requests are counted in memory',
    secret: true
  },
  REDIS_CA_FILE: {
    meaning: 'File of the CA certificates (PEM) that the certificate of Redis is verified against',
    shown: 'the CAs that Node.js trusts'
  },
  REDIS_CERT_FILE: {
    meaning: 'File of the client certificate chain (PEM), for a Redis that requires one'
  },
  REDIS_KEY_FILE: { meaning: 'File of the private key of that certificate (PEM)' },
  REDIS_PREFIX: {
    meaning:
      'Begins every key and channel in Redis: installations that share a Redis need different ones. The same on all instances',
    fallback: 'portaria:'
  },
  UPSTREAM_CONFIG: { meaning: 'Directory that holds the route files', fallback: 'upstream-config' },
  TRUST_PROXY: {
    meaning: 'Proxies whose X-Forwarded-* headers are trusted: IP addresses and CIDR blocks, comma-separated'
  },
  TLS_CERT_FILE: {
    meaning:
      'Certificate chain (PEM). When set, the listener speaks TLS 1.2 and 1.3. Read again when it changes and on SIGHUP. Several files, comma-separated: each connection gets the one that is for the name it asks for, or else the first'
  },
  TLS_KEY_FILE: { meaning: 'Private key of that certificate (PEM); of several, in the same order' },
  TLS_HTTP2: { meaning: 'Offer HTTP/2 (`h2`) beside HTTP/1.1 on the TLS listener', fallback: 'true' },
  REDIRECT_PORT: {
    meaning:
      'Port of a plain HTTP listener that redirects (308) to PUBLIC_URL, or to the same host if a route names it, keeping path and query',
    shown: 'off'
  },
  PROXY_PROTOCOL: {
    meaning:
      'Require peers in TRUST_PROXY to begin each connection with a PROXY protocol header (version 1 or 2), before TLS',
    fallback: 'false'
  },
  JWT_SECRET: {
    meaning: 'Secret that signs tokens and the state of cloud logins; at least 32 bytes (`openssl rand -hex 32`)',
    shown: 'required',
    secret: true
  },
  JWT_PREVIOUS_SECRETS: {
    meaning:
      'Further secrets, comma-separated, that verify tokens but never sign them; used to rotate JWT_SECRET without logging people out',
    secret: true
  },
  JWT_EXPIRES_IN: {
    meaning:
      'Lifetime of a token. Tokens that were issued for longer, and for more than a day, are refused, so that lowering it ends them',
    fallback: '8h'
  },
  SESSION_MAX: {
    meaning:
      'How long after its login a session may be renewed by use; with a short JWT_EXPIRES_IN, sessions end when they are not used for that long. At least JWT_EXPIRES_IN',
    shown: 'JWT_EXPIRES_IN: no renewal'
  },
  ACCESS_TOKEN_CONFIRM: {
    meaning: 'An access token is refused once its owner has not been confirmed by a login or a recheck for this long',
    fallback: '30d'
  },
  ASSERTION_KEY_ROTATION: {
    meaning: 'Age at which the key that signs assertions is replaced',
    fallback: '90d'
  },
  BOOTSTRAP_ADMINS: {
    meaning:
      'People who become Admins at their next login, once per entry: `ldap:<login>` or `cloudidp:<stable subject>`, comma-separated. For a login that is an e-mail address or contains blanks, use `portaria grant` after its first login'
  },
  AUDIT_RETENTION: {
    meaning:
      'Age at which entries of the audit log are archived and removed, at least `1d`; needs AUDIT_ARCHIVE (`portaria audit verify FILE` checks an archive)',
    shown: 'never'
  },
  AUDIT_ARCHIVE: {
    meaning: 'Directory that receives the archives; with several instances, one that all of them see'
  },
  RATE_LIMIT_TTL_MS: { meaning: 'Length of the window of the global rate limit', fallback: '60000' },
  RATE_LIMIT_MAX: { meaning: 'Requests per IP address and window', fallback: '300' },
  MAX_BODY: {
    meaning: 'Largest request body where a route has no `maxBody`, such as `10MB` (1 MB is 1048576 bytes)',
    shown: 'none'
  },
  STREAMS_PER_USER: {
    meaning:
      'Share of the open streams of an upstream (16384 per target and process) that one person may hold: WebSockets, Socket.IO sessions and event streams',
    fallback: '10%'
  },
  STREAMS_PER_IP: { meaning: 'The same for one client address', fallback: '10%' },
  AUTH_PROVIDERS: {
    meaning: 'Active login providers, out of `ldap` and `cloudidp`, comma-separated',
    shown: 'all enabled ones'
  },
  LDAP_ENABLED: { meaning: 'Enable login through the directory', fallback: 'false' },
  LDAP_URL: {
    meaning: 'Address of the directory, `ldaps://host:636`; several servers, comma-separated, are tried in order'
  },
  LDAP_DOMAIN: {
    meaning: 'Domain of the directory; without LDAP_USER_DN_TEMPLATE the bind name is `username@LDAP_DOMAIN`'
  },
  LDAP_USER_DN_TEMPLATE: {
    meaning: 'Template of the bind name; `{{username}}` is replaced with the login name'
  },
  LDAP_BIND_DN: {
    meaning:
      'DN of a service account: it searches for a person first, then the gateway binds with the DN found. Needs LDAP_SEARCH_BASE and LDAP_SEARCH_FILTER; LDAP_USER_DN_TEMPLATE is then not used'
  },
  LDAP_BIND_PASSWORD: { meaning: 'Password of LDAP_BIND_DN', secret: true },
  LDAP_SEARCH_BASE: { meaning: 'Base DN of the search for people; requires LDAP_SEARCH_FILTER' },
  LDAP_SEARCH_FILTER: {
    meaning: 'Filter that must match exactly one entry; `{{username}}` is replaced with the login name'
  },
  LDAP_GROUP_BASE: {
    meaning: 'Base DN of the search for groups, for directories without `memberOf`; used with LDAP_GROUP_FILTER'
  },
  LDAP_GROUP_FILTER: {
    meaning: 'Filter that finds the groups of a person; `{{dn}}` and `{{username}}` are replaced',
    shown: '`(\\|(member={{dn}})(uniqueMember={{dn}})(memberUid={{username}}))`'
  },
  LDAP_RECHECK: {
    meaning:
      'How often people with a live session or access token are looked up in the directory again (needs LDAP_BIND_DN); `0s`: never',
    fallback: '15m'
  },
  LDAP_TIMEOUT_MS: { meaning: 'Time limit for the whole exchange with the directory', fallback: '5000' },
  LDAP_CA_FILE: {
    meaning: 'File of the CA certificates (PEM) that the certificate of the directory is verified against',
    shown: 'the CAs that Node.js trusts'
  },
  LDAP_STARTTLS: { meaning: 'Encrypt an `ldap://` connection with StartTLS', fallback: 'false' },
  LDAP_INSECURE: {
    meaning: 'Allow unencrypted `ldap://` to other hosts than loopback; `/health` then reports `insecure`',
    fallback: 'false'
  },
  LDAP_LOCKOUT_THRESHOLD: {
    meaning:
      'Number of failed logins at which the directory locks an account; the gateway never lets that many through',
    fallback: '5'
  },
  LDAP_LOCKOUT_WINDOW: {
    meaning: 'Period over which the directory counts them; `0`: it never forgets them until a login succeeds',
    fallback: '30m'
  },
  CLOUDIDP_ENABLED: { meaning: 'Enable login through the cloud provider', fallback: 'false' },
  CLOUDIDP_TENANT_ID: {
    meaning: 'Tenant; replaces `{{tenant}}` in the addresses of the provider',
    fallback: 'common'
  },
  CLOUDIDP_CLIENT_ID: { meaning: 'Client ID registered with the provider' },
  CLOUDIDP_CLIENT_SECRET: { meaning: 'Client secret', secret: true },
  CLOUDIDP_REDIRECT_URI: {
    meaning: 'Callback URL, exactly as registered with the provider',
    shown: 'PUBLIC_URL`/auth/oauth/cloudidp/callback`'
  },
  CLOUDIDP_SUCCESS_REDIRECT_URL: {
    meaning: 'Where the callback redirects to, with `#auth=…`',
    shown: 'FRONTEND_URL`/login`; without FRONTEND_URL, the built-in PUBLIC_URL`/auth/login`'
  },
  CLOUDIDP_STATE_MAX_AGE_MS: { meaning: 'Time in which a login attempt must be completed', fallback: '600000' },
  CLOUDIDP_ISSUER: {
    meaning:
      'Issuer for OpenID Connect discovery (recommended); without it, no nonce is sent and no ID token is required'
  },
  CLOUDIDP_ALLOWED_TENANTS: { meaning: 'Ids of the tenants whose people may log in, comma-separated, or `*`' },
  CLOUDIDP_INSECURE: {
    meaning: 'Allow unencrypted `http://` provider addresses on other hosts than loopback',
    fallback: 'false'
  },
  CLOUDIDP_AUTHORIZATION_URL: {
    meaning: 'Authorization endpoint',
    fallback: 'https://login.microsoftonline.com/{{tenant}}/oauth2/v2.0/authorize'
  },
  CLOUDIDP_TOKEN_URL: {
    meaning: 'Token endpoint',
    fallback: 'https://login.microsoftonline.com/{{tenant}}/oauth2/v2.0/token'
  },
  CLOUDIDP_PROFILE_URL: { meaning: 'Profile endpoint', fallback: 'https://graph.microsoft.com/v1.0/me' },
  CLOUDIDP_SCOPE: {
    meaning: 'Scopes, separated by spaces',
    shown: '`openid profile email User.Read`; with CLOUDIDP_ISSUER, `openid profile email`'
  },
  CLOUDIDP_GROUPS_CLAIM: {
    meaning:
      'Claim that lists groups or roles, or is an object with a member for each, taken from the ID token or else from userinfo; needs CLOUDIDP_ISSUER',
    fallback: 'groups'
  },
  CLOUDIDP_NAME: { meaning: 'Name of the provider on the login button' },
  OPS_PORT: { meaning: 'Port of a second listener for `/metrics`, `/live` and `/ready`', shown: 'off' },
  OPS_HOST: { meaning: 'Address of that listener', fallback: '127.0.0.1' },
  LOG_LEVEL: { meaning: '`trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`', fallback: 'info' },
  WORKERS: {
    meaning:
      'Number of processes that share the listener; `auto`: one per CPU, or as many as the CPU quota of the container allows; `auto` and more than 1 require DATABASE_URL and REDIS_URL',
    fallback: '1'
  },
  CONNECTIONS_PER_IP: {
    meaning:
      'Open connections allowed per client address (IPv6: per /64), across all workers; peers in TRUST_PROXY are exempt',
    fallback: '1000'
  },
  DRAIN_DELAY: {
    meaning: 'How long `/ready` fails after SIGTERM before the listener stops accepting connections',
    fallback: '0'
  },
  DRAIN_TIMEOUT: {
    meaning: 'How long the gateway waits for requests and sockets to finish after SIGTERM',
    fallback: '10s'
  },
  LOGIN_FAILURES_PER_IP: {
    meaning: 'Failed directory logins allowed per client address and window; a pair of name and password counts once',
    fallback: '20'
  },
  LOGIN_FAILURES_WINDOW: {
    meaning: 'Length of that window; at most a day, after which what was tried is forgotten',
    fallback: '5m'
  },
  REVOCATION_MAX_STALENESS: {
    meaning: 'Refuse requests to private routes (503) when revocations could not be re-read for this long',
    shown: 'continue with the known revocations'
  },
  BROWSER_SESSION: {
    meaning: 'Also keep the session in a cookie, for routes with `browser: true`',
    fallback: 'false'
  },
  REVEAL_REASON: { meaning: 'Name the missing role in 403 responses', fallback: 'false' },
  CONTACT: { meaning: 'Whom to contact for access; shown on pages and, with REVEAL_REASON, in 403 responses' },
  BRAND_NAME: { meaning: 'Name shown on the built-in pages', fallback: 'Portaria' }
} as const satisfies Record<string, Row>

export type VariableName = keyof typeof TABLE

export const ROWS: Readonly<Record<VariableName, Row>> = TABLE

export interface Variable extends Row {
  readonly name: VariableName
}

/** All variables, in the order of docs/settings.md. */
export const VARIABLES = Object.entries(ROWS).map(([name, row]) => ({ name, ...row }) as Variable)
