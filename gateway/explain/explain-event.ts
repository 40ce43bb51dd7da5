// Explains the decision on a Socket.IO event: the namespace, the rule that applies to the event, and the result.
import type { DecideOptions, Decision } from '../routes/decide.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import { decideEventOnRoutes, findEvent, findNamespace } from '../routes/socketio-rules.ts'
import { askersWith, type NamedAsker } from './askers.ts'
import { lineOf, type Question, withToken } from './explain.ts'

interface EventQuestion {
  readonly namespace: string
  readonly event: string
  readonly asker: NamedAsker
  readonly tokenFault?: Question['tokenFault']
}

interface EventExplanation {
  /** undefined: no route lists the namespace. */
  readonly route: Route | undefined
  readonly decision: Decision
  readonly words: string
  /** The decision on the same event for every other kind of person. */
  readonly others: readonly { readonly name: string; readonly decision: Decision }[]
}

/** One result for each route that lists the namespace, or one that says that none does. */
export const explainEvent = (
  table: RouteTable,
  { namespace, event, asker, tokenFault }: EventQuestion,
  options: DecideOptions
): EventExplanation[] => {
  const what = { namespace, event }
  const others = askersWith(table.profiles).map(other => ({
    name: other.name,
    answers: decideEventOnRoutes(table, what, other, options)
  }))
  return decideEventOnRoutes(table, what, asker, options).map(({ route, decision }, index) => ({
    route,
    decision: withToken(decision, tokenFault),
    words: wordsOf(route, what, decision, asker),
    others: others.flatMap(({ name, answers }) => {
      const answer = answers[index]
      return answer === undefined ? [] : [{ name, decision: answer.decision }]
    })
  }))
}

const wordsOf = (
  route: Route | undefined,
  what: { namespace: string; event: string },
  { reason }: Decision,
  asker: NamedAsker
): string => {
  if (reason === 'namespace-name') return 'Implementations read this name differently, so no client may use it.'
  const namespace = route && findNamespace(route, what.namespace)
  if (route === undefined || namespace === undefined) return 'No route lists this namespace, so it is closed.'
  const where = `The route "${route.id}" (${lineOf(route.place)}) lists the namespace as ${namespace.name}`
  if (reason === 'no-token') return `${where}, and connecting to it requires a valid token.`
  const { events } = namespace
  if (events === undefined)
    return `${where} without \`events\`: everyone who may connect may send any event. ${roleWords(namespace.roles, asker, reason)}`
  const rule = findEvent(events, what.event)
  if (rule === undefined) return `${where}, and none of its \`events\` names this one: it is refused.`
  const both = [...new Set([...(namespace.roles ?? []), ...(rule.roles ?? [])])]
  return `${where} and the event as ${rule.name}. ${roleWords(rule.roles ?? (both.length > 0 ? both : undefined), asker, reason)}`
}

const roleWords = (roles: readonly string[] | undefined, { name }: NamedAsker, reason: string): string => {
  if (roles === undefined) return 'It requires no role.'
  return `It requires ${roles.join(' or ')}, and ${name} ${reason === 'has-role' ? 'has it' : 'does not have it'}.`
}

/** As JSON, for `--json`. */
export const eventExplanationJson = (
  { namespace, event, asker }: EventQuestion,
  { route, decision, words, others }: EventExplanation
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
