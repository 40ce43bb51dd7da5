// Writes audit entries as CSV (RFC 4180) that a spreadsheet opens without evaluating anything.
import type { AuditItem } from '../store/audit-list.ts'

const COLUMNS = 'at,actorId,actor,action,target,targetName,before,after,ip,requestId,hash'

/** Spreadsheets evaluate cells that begin like this, and the names in refused logins are chosen by strangers. */
const FORMULA = /^[=+\-@\t\r]/

const cell = (text: string): string => {
  const safe = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe
}

const json = (value: unknown): string => (value === null || value === undefined ? '' : JSON.stringify(value))

const row = ({ at, actor, action, target, targetName, before, after, ip, requestId, hash }: AuditItem): string =>
  [
    at,
    String(actor.id ?? ''),
    actor.username,
    action,
    target,
    targetName,
    json(before),
    json(after),
    ip,
    requestId,
    hash
  ]
    .map(cell)
    .join(',')

/** Starts with a byte order mark; without it, Excel reads UTF-8 as Windows-1252. */
export const auditCsv = (items: readonly AuditItem[]): string =>
  `\ufeff${[COLUMNS, ...items.map(row)].join('\r\n')}\r\n`
