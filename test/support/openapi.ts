// Checks every answer of the gateway's own endpoints that a test sees against the document that describes it.
import { Ajv } from 'ajv'

interface Operation {
  responses?: Record<string, { content?: Record<string, { schema?: object }> }>
}

interface Document {
  paths: Record<string, Record<string, Operation>>
}

const errorSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['statusCode', 'code', 'error', 'message', 'requestId'],
  properties: {
    statusCode: { type: 'integer' },
    code: { type: 'string', pattern: '^GW_[A-Z_]+$' },
    error: { type: 'string', minLength: 1 },
    message: { type: 'string', minLength: 1 },
    requestId: { type: 'string', minLength: 1 }
  }
}

const ajv = new Ajv({ strict: false })
const checkError = ajv.compile(errorSchema)

const operationFor = (document: Document, method: string, path: string): Operation | undefined => {
  for (const [template, operations] of Object.entries(document.paths)) {
    const pattern = new RegExp(`^${template.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^}]+\}/g, '[^/]+')}$`)
    const operation = operations[method.toLowerCase()]
    if (operation !== undefined && pattern.test(path)) return operation
  }
  return undefined
}

/** What is wrong with an answer, or undefined. The contents of pages and assets are not the document's business. */
export const answerFault = async (
  document: unknown,
  method: string,
  path: string,
  answer: Response
): Promise<string | undefined> => {
  const shown = `${method} ${path} ${answer.status}`
  const operation = operationFor(document as Document, method === 'HEAD' ? 'GET' : method, path)
  if (operation !== undefined && answer.status < 400 && !(answer.status in (operation.responses ?? {})))
    return `${shown} is not in the OpenAPI document`
  if (!(answer.headers.get('content-type') ?? '').startsWith('application/json')) return undefined
  const body: unknown = await answer.clone().json()
  if (answer.status >= 400) return checkError(body) ? undefined : `${shown}: ${ajv.errorsText(checkError.errors)}`
  const schema = operation?.responses?.[String(answer.status)]?.content?.['application/json']?.schema
  if (schema === undefined) return `${shown} is not in the OpenAPI document`
  return ajv.validate(schema, body) ? undefined : `${shown}: ${ajv.errorsText()}`
}
