// Names every parser that reads what strangers send, with what its readings are compared with.
import type { Target } from './engine.ts'
import { clientRequests } from './targets/client-requests.ts'
import { cookies } from './targets/cookies.ts'
import { webSocketFrames } from './targets/frames.ts'
import { hosts } from './targets/hosts.ts'
import { ldapMessages } from './targets/ldap-messages.ts'
import { loginBodies } from './targets/login-bodies.ts'
import { paths } from './targets/paths.ts'
import { proxyHeaders } from './targets/proxy-headers.ts'
import { queries } from './targets/queries.ts'
import { socketIo } from './targets/socketio.ts'
import { jsonWebTokens } from './targets/tokens.ts'
import { upstreamResponses } from './targets/upstream-responses.ts'
import { yaml } from './targets/yaml.ts'

export const TARGETS: readonly Target[] = [
  clientRequests,
  upstreamResponses,
  proxyHeaders,
  webSocketFrames,
  socketIo,
  paths,
  hosts,
  queries,
  cookies,
  jsonWebTokens,
  ldapMessages,
  yaml,
  loginBodies
]
