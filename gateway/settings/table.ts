// Lists every variable that the gateway reads: its name, what it means, its default, and whether it is a secret.

interface Row {
  readonly name: string
  readonly meaning: string
  /** The default as one would write it into the environment; absent: unset. */
  readonly fallback?: string
  /** The default in words, where it is not a fixed value. */
  readonly shown?: string
  /** Its value may hold a secret. */
  readonly secret?: true
  /** Its value may be read from the file that `<name>_FILE` names. */
  readonly file?: true
}

const TABLE = [
  { name: 'PORT', meaning: 'Port of the listener', fallback: '3000' },
  { name: 'HOST', meaning: 'Address of the listener', fallback: '0.0.0.0' },
  {
    name: 'PUBLIC_URL',
    meaning: 'The one origin that browsers see',
    shown: 'http://localhost:PORT; https with TLS_CERT_FILE'
  },
  {
    name: 'FRONTEND_URL',
    meaning: 'Base address of the frontend; its origin may call the gateway (CORS)',
    shown: 'PUBLIC_URL'
  },
  {
    name: 'CORS_ORIGINS',
    meaning: "Origins beside FRONTEND_URL's whose pages may call the gateway and private routes, comma-separated"
  },
  {
    name: 'ALLOWED_HOSTS',
    meaning:
      'Hosts, besides that of PUBLIC_URL, that are passed to backends as Host and X-Forwarded-Host, ports included, comma-separated; `*`: any',
    shown: '`*` while PUBLIC_URL is unset, else none'
  },
  {
    name: 'DATABASE_URL',
    meaning: 'Postgres, `postgres://user:password@host:5432/name`; unset: embedded, in DATA_DIR',
    secret: true,
    file: true
  },
  { name: 'DATA_DIR', meaning: 'Folder of the embedded database', fallback: './data' },
  {
    name: 'REDIS_URL',
    meaning:
      'Redis: `redis://host:6379/0`, `redis-sentinel://host:26379,host:26379/master/0` or `redis-cluster://host:6379,host:6379`; `rediss…` for TLS; unset: counters in memory',
    secret: true,
    file: true
  },
  { name: 'UPSTREAM_CONFIG', meaning: 'Folder of the route files', fallback: 'upstream-config' },
  { name: 'TRUST_PROXY', meaning: 'Proxies whose X-Forwarded-* count: IPs and CIDR blocks, comma-separated' },
  {
    name: 'TLS_CERT_FILE',
    meaning: 'PEM chain: the listener speaks TLS 1.2 and 1.3 itself; read again when it changes and on SIGHUP'
  },
  { name: 'TLS_KEY_FILE', meaning: 'PEM private key of that certificate' },
  {
    name: 'REDIRECT_PORT',
    meaning: 'A plain listener that answers 308 to PUBLIC_URL, path and query kept',
    shown: 'off'
  },
  {
    name: 'PROXY_PROTOCOL',
    meaning: 'Peers in TRUST_PROXY must begin each connection with a PROXY header, version 1 or 2, before TLS',
    fallback: 'false'
  },
  {
    name: 'JWT_SECRET',
    meaning: 'Signs tokens and states; at least 32 bytes (`openssl rand -hex 32`)',
    shown: 'required',
    secret: true,
    file: true
  },
  {
    name: 'JWT_PREVIOUS_SECRETS',
    meaning: 'Comma-separated; still verify, never sign: rotation without logging everybody out',
    secret: true,
    file: true
  },
  { name: 'JWT_EXPIRES_IN', meaning: 'Lifetime of a token', fallback: '8h' },
  {
    name: 'ACCESS_TOKEN_CONFIRM',
    meaning: 'An access token is refused while its owner has not been confirmed by a login or a recheck for so long',
    fallback: '30d'
  },
  { name: 'ASSERTION_KEY_ROTATION', meaning: 'Age at which a new key signs assertions', fallback: '90d' },
  { name: 'BOOTSTRAP_ADMINS', meaning: 'First Admins: `ldap:<login>` or `cloudidp:<stable subject>`, comma-separated' },
  { name: 'RATE_LIMIT_TTL_MS', meaning: 'Window of the global limit', fallback: '60000' },
  { name: 'RATE_LIMIT_MAX', meaning: 'Requests per IP and window', fallback: '300' },
  {
    name: 'STREAMS_PER_USER',
    meaning:
      'Share of an upstream’s open streams (16384 per target and process) that one person may hold: WebSockets, Socket.IO sessions, event streams',
    fallback: '10%'
  },
  { name: 'STREAMS_PER_IP', meaning: 'The same for one client address', fallback: '10%' },
  {
    name: 'AUTH_PROVIDERS',
    meaning: 'Active providers, of `ldap` and `cloudidp`, comma-separated',
    shown: 'all that are enabled'
  },
  { name: 'LDAP_ENABLED', meaning: 'Directory login', fallback: 'false' },
  {
    name: 'LDAP_URL',
    meaning: 'Directory, `ldaps://host:636`; several servers comma-separated, tried in order'
  },
  {
    name: 'LDAP_DOMAIN',
    meaning: 'Domain of the directory; without a template the bind name is `username@LDAP_DOMAIN`'
  },
  { name: 'LDAP_USER_DN_TEMPLATE', meaning: 'Bind name; `{{username}}` is replaced by the login name' },
  {
    name: 'LDAP_BIND_DN',
    meaning:
      'Service account: people are searched for first, then bound by the DN found. Needs LDAP_SEARCH_BASE and LDAP_SEARCH_FILTER, and replaces LDAP_USER_DN_TEMPLATE'
  },
  { name: 'LDAP_BIND_PASSWORD', meaning: 'Its password', secret: true, file: true },
  { name: 'LDAP_SEARCH_BASE', meaning: 'Where the data of a person is searched; goes with LDAP_SEARCH_FILTER' },
  { name: 'LDAP_SEARCH_FILTER', meaning: 'Must match exactly one entry; `{{username}}` is replaced by the login name' },
  {
    name: 'LDAP_GROUP_BASE',
    meaning: 'Where groups are searched in directories without `memberOf`; goes with LDAP_GROUP_FILTER'
  },
  {
    name: 'LDAP_GROUP_FILTER',
    meaning: 'Groups of a person; `{{dn}}` and `{{username}}` are replaced',
    shown: '`(\\|(member={{dn}})(uniqueMember={{dn}})(memberUid={{username}}))`'
  },
  {
    name: 'LDAP_RECHECK',
    meaning:
      'How often people with a live session or access token are looked up again (needs LDAP_BIND_DN); 0s = never',
    fallback: '15m'
  },
  { name: 'LDAP_TIMEOUT_MS', meaning: 'Time for the whole exchange with the directory', fallback: '5000' },
  {
    name: 'LDAP_CA_FILE',
    meaning: 'PEM file of the authorities that the directory is verified against',
    shown: 'those of Node'
  },
  { name: 'LDAP_STARTTLS', meaning: 'Encrypt an `ldap://` connection with StartTLS', fallback: 'false' },
  { name: 'LDAP_INSECURE', meaning: 'Allow plain `ldap://` beyond loopback; /health says so', fallback: 'false' },
  {
    name: 'LDAP_LOCKOUT_THRESHOLD',
    meaning: 'Failed logins at which the directory locks an account; never reached through the gateway',
    fallback: '5'
  },
  { name: 'LDAP_LOCKOUT_WINDOW', meaning: 'Time in which the directory counts them', fallback: '30m' },
  { name: 'CLOUDIDP_ENABLED', meaning: 'Login with the cloud provider', fallback: 'false' },
  {
    name: 'CLOUDIDP_TENANT_ID',
    meaning: 'Tenant; replaces `{{tenant}}` in the addresses of the provider',
    fallback: 'common'
  },
  { name: 'CLOUDIDP_CLIENT_ID', meaning: 'Client identifier' },
  { name: 'CLOUDIDP_CLIENT_SECRET', meaning: 'Client secret', secret: true, file: true },
  {
    name: 'CLOUDIDP_REDIRECT_URI',
    meaning: 'Callback as registered at the provider',
    shown: 'PUBLIC_URL`/auth/oauth/cloudidp/callback`'
  },
  {
    name: 'CLOUDIDP_SUCCESS_REDIRECT_URL',
    meaning: 'Where the callback leads with `#auth=…`',
    shown: 'FRONTEND_URL`/login`; without FRONTEND_URL the built-in PUBLIC_URL`/auth/login`'
  },
  { name: 'CLOUDIDP_STATE_MAX_AGE_MS', meaning: 'How old a login attempt may be', fallback: '600000' },
  {
    name: 'CLOUDIDP_ISSUER',
    meaning: 'OpenID Connect discovery (preferred); without it no nonce is sent and no ID token is required'
  },
  { name: 'CLOUDIDP_ALLOWED_TENANTS', meaning: 'Tenant ids that may log in, comma-separated, or `*`' },
  { name: 'CLOUDIDP_INSECURE', meaning: 'Allow `http://` provider addresses beyond loopback', fallback: 'false' },
  {
    name: 'CLOUDIDP_AUTHORIZATION_URL',
    meaning: 'Authorization endpoint',
    fallback: 'https://login.microsoftonline.com/{{tenant}}/oauth2/v2.0/authorize'
  },
  {
    name: 'CLOUDIDP_TOKEN_URL',
    meaning: 'Token endpoint',
    fallback: 'https://login.microsoftonline.com/{{tenant}}/oauth2/v2.0/token'
  },
  { name: 'CLOUDIDP_PROFILE_URL', meaning: 'Profile endpoint', fallback: 'https://graph.microsoft.com/v1.0/me' },
  {
    name: 'CLOUDIDP_SCOPE',
    meaning: 'Scopes, separated by blanks',
    shown: '`openid profile email User.Read`; with CLOUDIDP_ISSUER `openid profile email`'
  },
  {
    name: 'CLOUDIDP_GROUPS_CLAIM',
    meaning: 'Claim that lists groups or roles, in the ID token, else in userinfo; needs CLOUDIDP_ISSUER',
    fallback: 'groups'
  },
  { name: 'CLOUDIDP_NAME', meaning: "The provider's name on the login button" },
  { name: 'OPS_PORT', meaning: 'Second listener for `/metrics`, `/live`, `/ready`', shown: 'off' },
  { name: 'OPS_HOST', meaning: 'Its address', fallback: '127.0.0.1' },
  { name: 'LOG_LEVEL', meaning: 'trace, debug, info, warn, error, fatal or silent', fallback: 'info' },
  {
    name: 'WORKERS',
    meaning: 'Processes that share the listener; more than 1 needs DATABASE_URL and REDIS_URL',
    fallback: '1'
  },
  {
    name: 'CONNECTIONS_PER_IP',
    meaning: 'Connections of one client address (IPv6 /64), over all workers; peers in TRUST_PROXY are exempt',
    fallback: '1000'
  },
  {
    name: 'DRAIN_DELAY',
    meaning: 'How long after SIGTERM `/ready` fails before the listener stops accepting',
    fallback: '0'
  },
  { name: 'DRAIN_TIMEOUT', meaning: 'How long SIGTERM waits for requests and sockets', fallback: '10s' },
  { name: 'LOGIN_FAILURES_PER_IP', meaning: 'Failed directory logins per client IP and window', fallback: '20' },
  { name: 'LOGIN_FAILURES_WINDOW', meaning: 'That window', fallback: '5m' },
  {
    name: 'REVOCATION_MAX_STALENESS',
    meaning: 'Refuse private routes (503) when revocations could not be read again for so long',
    shown: 'go on with what is known'
  },
  {
    name: 'BROWSER_SESSION',
    meaning: 'Also keep the session in a cookie, for `browser: true` routes',
    fallback: 'false'
  },
  { name: 'REVEAL_REASON', meaning: 'Let a 403 name the missing role', fallback: 'false' },
  { name: 'CONTACT', meaning: 'Whom to ask, shown on pages and, with REVEAL_REASON, in a 403' },
  { name: 'BRAND_NAME', meaning: 'The name shown on the built-in pages', fallback: 'Portaria' }
] as const satisfies readonly Row[]

export type VariableName = (typeof TABLE)[number]['name']

export interface Variable extends Row {
  readonly name: VariableName
}

/** All variables, in the order of docs/settings.md. */
export const VARIABLES: readonly Variable[] = TABLE

/** The table in docs/settings.md; `npm run docs` writes it there. */
export const settingsTable = (): string =>
  [
    '| variable | meaning | default |',
    '|---|---|---|',
    ...VARIABLES.map(({ name, meaning, fallback, shown }) => {
      const preset = fallback === undefined ? (shown ?? '–') : `\`${fallback}\``
      return `| ${name} | ${meaning} | ${preset} |`
    })
  ].join('\n')
