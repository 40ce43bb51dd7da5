// Explains the decision on a Socket.IO event: the namespace, the rule that applies to the event, and the result.
import type { DecideOptions, Decision } from '../routes/decide.ts'
import { reasonInWords } from '../routes/decision-words.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import { decideEventOnRoutes, findNamespace, findRule } from '../routes/socketio-rules.ts'
import { askersWith, type NamedAsker } from './askers.ts'
import { lineOf, type Question, withToken } from './explain.ts'

interface EventQuestion {
  readonly namespace: string
  readonly event: string
  readonly asker: NamedAsker
  readonly tokenFault?: Question['tokenFault']
}

/** One result for each route that lists the namespace, or one that says that none does. */
export const explainEvent = (
  table: RouteTable,
  { namespace, event, asker, tokenFault }: EventQuestion,
  options: DecideOptions
) => {
  const what = { namespace, event }
  const others = askersWith(table.profiles).map(other => ({
    name: other.name,
    answers: decideEventOnRoutes(table, what, { ...other, address: asker.address }, options)
  }))
  return decideEventOnRoutes(table, what, asker, options).map(({ route, decision }, index) => ({
    route,
    decision: withToken(decision, tokenFault),
    words: wordsOf(route, what, decision, asker),
    /** The decision on the same event for every other kind of person. */
    others: others.flatMap(({ name, answers }) => {
      const answer = answers[index]
      return answer === undefined ? [] : [{ name, decision: answer.decision }]
    })
  }))
}

const wordsOf = (
  route: Route | undefined,
  what: { namespace: string; event: string },
  decision: Decision,
  asker: NamedAsker
): string => {
  const { reason } = decision
  if (reason === 'namespace-name') return 'Implementations read this name differently, so no client may use it.'
  const namespace = route && findNamespace(route, what.namespace)
  if (route === undefined || namespace === undefined) return 'No route lists this namespace, so it is closed.'
  const where = `The route "${route.id}" (${lineOf(route.place)}) lists the namespace as ${namespace.name}`
  if (reason === 'no-token') return `${where}, and connecting to it requires a valid token.`
  if (reason === 'reserved-event') return `${where}, but to servers the name of the event has a meaning of its own.`
  if (reason === 'event-not-listed') return `${where}, and none of its \`events\` names this one: it is refused.`
  if (reason === 'address' || reason.endsWith('unassigned'))
    return `${where}. ${reasonInWords(decision, { route, path: route.path }, asker)}`
  const { events } = namespace
  const rule = events && findRule(events, what.event)
  const every =
    rule === undefined
      ? ' without `events`: everyone who may connect may send any event'
      : ` and the event as ${rule.name}`
  const isConnecting = rule?.roles === undefined || !hasRole(asker, namespace.roles)
  return `${where}${every}. ${roleWords(isConnecting ? namespace.roles : rule.roles, asker)}`
}

const hasRole = ({ user }: NamedAsker, roles: readonly string[] | undefined): boolean =>
  roles === undefined || user?.profiles.some(profile => roles.includes(profile)) === true

const roleWords = (roles: readonly string[] | undefined, asker: NamedAsker): string => {
  if (roles === undefined) return 'It requires no role.'
  return `It requires ${roles.join(' or ')}, and ${asker.name} ${hasRole(asker, roles) ? 'has it' : 'does not have it'}.`
}

/** As JSON, for `--json`. */
export const eventExplanationJson = (
  { namespace, event, asker }: EventQuestion,
  { route, decision, words, others }: ReturnType<typeof explainEvent>[number]
) => ({
  method: 'EVENT',
  namespace,
  event,
  as: asker.name,
  decision: decision.decision,
  code: decision.code ?? '',
  reason: decision.reason,
  words,
  route: route?.id ?? '',
  place: route === undefined ? '' : lineOf(route.place),
  everybody: Object.fromEntries(others.map(other => [other.name, String(other.decision.decision)]))
})
