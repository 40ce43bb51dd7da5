// Lists mutants that no test can tell from the original, or whose difference nobody is promised, each with its reason.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it quotes source

export interface Equivalent {
  readonly module: string
  /** The line of the source that the mutant begins in, without indentation. */
  readonly line: string
  /** `original → replacement` as the run prints it; several when the reason is the same. */
  readonly changes: readonly string[]
  readonly reason: string
}

export const EQUIVALENT: readonly Equivalent[] = [
  {
    module: 'gateway/access/authorize.ts',
    line: 'const profiles = (isUnassigned ? undefined : route?.roles) ?? []',
    changes: ['?. → .'],
    reason: 'a 403 is given for a route only'
  },
  {
    module: 'gateway/access/browser-session.ts',
    line: 'if (cookie === undefined || !cookie.includes(baseName)) return { token: undefined, twice: false }',
    changes: ['{ token: undefined, twice: false } → {}'],
    reason: 'both are read as absent'
  },
  {
    module: 'gateway/access/browser-session.ts',
    line: 'const name = pair.slice(0, Math.max(equals, 0)).trim()',
    changes: ['0 → 1 (2)'],
    reason: 'one character is no name of a session cookie'
  },
  {
    module: 'gateway/access/browser-session.ts',
    line: 'return token === undefined ? undefined : identify(token)',
    changes: ['token === undefined → false'],
    reason: 'what is no token is nobody, and identify says so'
  },
  {
    module: 'gateway/access/browser-session.ts',
    line: 'const ownEndpoint = route?.upstream === undefined && route?.external !== true',
    changes: ['?. → .', '?. → . (2)'],
    reason: 'the cookie is only heard on a route'
  },
  {
    module: 'gateway/access/browser-session.ts',
    line: "const heard = route?.browser === true || (route?.upstream === undefined && ABOUT_SESSION.has(route?.path ?? ''))",
    changes: ["'' → 'mutated'"],
    reason: 'no path is none of those'
  },
  {
    module: 'gateway/access/browser-session.ts',
    line: 'if (route?.browser !== true || !wantsPage(exchange)) return undefined',
    changes: ['?. → .'],
    reason: 'the cookie is only heard on a route'
  },
  {
    module: 'gateway/access/match-route.ts',
    line: 'if (absolute === null || host === undefined || absolute[1]?.toLowerCase() !== host.toLowerCase()) return undefined',
    changes: ['?. → .'],
    reason: 'for the type alone: the index always holds something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/access/match-route.ts',
    line: "const rest = absolute[2] ?? ''",
    changes: ['?? → &&', "'' → 'mutated'"],
    reason: 'a target that gives no path was refused before'
  },
  {
    module: 'gateway/access/match-route.ts',
    line: "const target = targetOf(exchange) ?? ''",
    changes: ['?? → &&', "'' → 'mutated'"],
    reason: 'a target that gives no path was refused before'
  },
  {
    module: 'gateway/access/match-route.ts',
    line: "match(exchange, targetOf(exchange)?.split('?', 1)[0] ?? '')",
    changes: ['?. → .', '1 → 2'],
    reason: 'the first part is the same, and there is one'
  },
  {
    module: 'gateway/access/match-route.ts',
    line: "match(exchange, targetOf(exchange)?.split('?', 1)[0] ?? '')",
    changes: ['?? → &&', "'' → 'mutated'"],
    reason: 'a target that gives no path was refused before'
  },
  {
    module: 'gateway/access/socket-token.ts',
    line: "if (rawHeaders[i]?.toLowerCase() !== 'sec-websocket-protocol') continue",
    changes: ['?. → .'],
    reason: 'for the type alone: the index always holds something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/access/socket-token.ts',
    line: "subprotocols.push(...(rawHeaders[i + 1] ?? '').split(',').map(item => item.trim()))",
    changes: ['?? → &&', "'' → 'mutated'"],
    reason: 'for the type alone: the index always holds something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/access/socket-token.ts',
    line: "const name = (pair.split('=', 1)[0] ?? '').replaceAll('+', ' ')",
    changes: ['1 → 2', '?? → &&', "'' → 'mutated'"],
    reason: 'for the type alone: the index always holds something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/access/socket-token.ts',
    line: 'return name',
    changes: ['name → undefined'],
    reason: 'a malformed name is not that of the token'
  },
  {
    module: 'gateway/limits/leases.ts',
    line: 'if (giveBack && window.lent > window.spent) window.lent = window.spent',
    changes: ['> → >='],
    reason: 'nothing changes where both are equal'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "const CLEAN = /^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/",
    changes: [
      "/^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/ → /^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/$/",
      "/^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/ → /^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)\\/?$/",
      "/^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/ → /^(?:\\/(?!\\.\\.?(?:\\/|))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/"
    ],
    reason: 'what it does not know is judged the long way, with the same answer; it is asked about one character'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: 'const UNRESERVED = /^[A-Za-z0-9._~-]$/',
    changes: ['/^[A-Za-z0-9._~-]$/ → /^[A-Za-z0-9._~-]/', '/^[A-Za-z0-9._~-]$/ → /[A-Za-z0-9._~-]$/'],
    reason: 'what it does not know is judged the long way, with the same answer; it is asked about one character'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: 'if (CLEAN.test(rawPath)) return { path: rawPath }',
    changes: ['CLEAN.test(rawPath) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!path.includes('%')) return undefined",
    changes: ["'%' → ''"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!path.includes('.')) return undefined",
    changes: ["'.' → ''"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "const path = rawPath.includes('%') ? rawPath.replace(/%[0-9A-Fa-f]{2}/g, decodeUnreserved) : rawPath",
    changes: ["rawPath.includes('%') → true", "'%' → ''"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!path.includes('%')) return undefined",
    changes: ["!path.includes('%') → false"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!path.includes('.')) return undefined",
    changes: ["!path.includes('.') → false"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "for (const segment of (decode(path) ?? path).split('/')) {",
    changes: ['?? → &&'],
    reason: 'what cannot be decoded was refused before'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!segment.includes('.')) continue",
    changes: ["!segment.includes('.') → false", "'.' → ''", 'continue → ;'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "const bare = trimBlanks(segment.replace(/[;?#].*$/su, ''))",
    changes: ['/[;?#].*$/su → /[;?#].*/su'],
    reason: 'the quantifier takes everything to the end by itself'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!text.includes('%')) return text",
    changes: ["'%' → ''", 'text → undefined'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: 'while (start < end && isBlank(text.charAt(start))) start += 1',
    changes: ['< → <='],
    reason: 'the character beyond the end is no blank'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: 'while (end > start && isTail(text.charAt(end - 1))) end -= 1',
    changes: ['> → >='],
    reason: 'the character beyond the end is no blank'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: 'return start === 0 && end === text.length ? text : text.slice(start, end)',
    changes: ['start === 0 && end === text.length → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/limits/leases.ts',
    line: 'const BATCH_MS = 250',
    changes: ['250 → 251'],
    reason: 'how long a reserve lasts is a matter of tuning'
  },
  {
    module: 'gateway/limits/leases.ts',
    line: 'lease.gapMs += (gapMs - lease.gapMs) * (gapMs < lease.gapMs ? 0.5 : 0.25)',
    changes: ['< → <='],
    reason: 'a gap equal to the mean changes nothing'
  },
  {
    module: 'gateway/tokens/access-token.ts',
    line: "const parts = key === -1 ? [] : token.split('.', 4)",
    changes: ['4 → 5'],
    reason: 'what has more than three parts has neither four nor five'
  },
  {
    module: 'gateway/tokens/access-token.ts',
    line: 'if (!(identity instanceof GatewayError)) verified[key] = (verified[key] ?? 0) + 1',
    changes: ['0 → 1'],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/tokens/assertions.ts',
    line: 'let zeroS = 0',
    changes: ['0 → 1'],
    reason: 'nothing is signed before the time of the database is known'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: 'if (written.length <= SIGNATURE_LENGTH) return false',
    changes: ['written.length <= SIGNATURE_LENGTH → false', '<= → <'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: 'if (written.length <= SIGNATURE_LENGTH) return false',
    changes: ['false → undefined'],
    reason: 'asked as a condition only'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: "path.includes('pt_') && [...path.matchAll(ACCESS_TOKENS)].some(([, token = '']) => isOurs(token))",
    changes: ["'pt_' → ''"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: "path.includes('pt_') && [...path.matchAll(ACCESS_TOKENS)].some(([, token = '']) => isOurs(token))",
    changes: ["'' → 'mutated'"],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: 'return false',
    changes: ['false → undefined'],
    reason: 'asked as a condition only'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: 'for (let i = 0; i + 2 < parts.length; i++) {',
    changes: ['+ → -', '< → <='],
    reason: 'where no third part is left, the signature is empty and too short'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: "const [header = '', payload = '', signature = ''] = parts.slice(i, i + 3)",
    changes: ["'' → 'mutated'", "'' → 'mutated' (2)", "'' → 'mutated' (3)"],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: "const [header = '', payload = '', signature = ''] = parts.slice(i, i + 3)",
    changes: ['3 → 4'],
    reason: 'of these the first three are taken'
  },
  {
    module: 'gateway/tokens/own-tokens.ts',
    line: "text.includes('%')",
    changes: ["text.includes('%') → true", "'%' → ''"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/socketio-rules.ts',
    line: "if (governing === undefined) return { decision: 404, code: NoRoute.code, reason: 'no-namespace' }",
    changes: [
      'governing === undefined → false',
      "{ decision: 404, code: NoRoute.code, reason: 'no-namespace' } → {}",
      "{ decision: 404, code: NoRoute.code, reason: 'no-namespace' } → undefined",
      '404 → 405',
      "'no-namespace' → ''"
    ],
    reason: 'asked of routes that list the namespace only'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "const CLEAN = /^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/",
    changes: [
      "/^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)*\\/?$/ → /^(?:\\/(?!\\.\\.?(?:\\/|$))[A-Za-z0-9._~!$&'()*+,=:@-])*\\/?$/"
    ],
    reason: 'what it does not know is judged the long way, with the same answer; it is asked about one character'
  },
  {
    module: 'gateway/routes/canonical-path.ts',
    line: "if (!text.includes('%')) return text",
    changes: ["!text.includes('%') → false"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/decision-words.ts',
    line: "const roles = match.route?.roles?.join(' or ') ?? ''",
    changes: ["'' → 'mutated'"],
    reason: 'the reasons that name roles are given of a route that has some'
  },
  {
    module: 'gateway/routes/decision-words.ts',
    line: "return `The route requires no role${match.route?.requireAssigned ? ', but only admits assigned people' : ''}.`",
    changes: ['?. → .'],
    reason: 'the reason is given of a route only'
  },
  {
    module: 'gateway/routes/decision-words.ts',
    line: "return `Routes with this path exist, but none for this method; allowed: ${match.refusal === 'method' ? match.allowed.join(', ') : ''}.`",
    changes: ["match.refusal === 'method' → true", "'' → 'mutated'"],
    reason: 'for the type alone: the reason is given of this refusal only'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: 'return rdns === undefined ? undefined : JSON.stringify(rdns)',
    changes: ['rdns === undefined → false'],
    reason: 'JSON.stringify answers undefined too'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: "const value = readValue(pair[2] ?? '')",
    changes: ["'' → 'mutated'"],
    reason: 'for the type alone: the group of the pattern takes part in each match'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: "rdns.at(-1)?.push(`${normaliseType(pair[1] ?? '')}=${value}`)",
    changes: ['?. → .'],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: "rdns.at(-1)?.push(`${normaliseType(pair[1] ?? '')}=${value}`)",
    changes: ["'' → 'mutated'"],
    reason: 'for the type alone: the group of the pattern takes part in each match'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: "const lower = type.toLowerCase().replace(/^oid\\./, '')",
    changes: ['/^oid\\./ → /oid\\./'],
    reason: 'only the prefix of a number contains a dot after a letter'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: 'for (const [piece] of text.matchAll(/\\\\[0-9A-Fa-f]{2}|\\\\.|[^\\\\]+/gsu)) {',
    changes: ['/\\\\[0-9A-Fa-f]{2}|\\\\.|[^\\\\]+/gsu → /\\\\[0-9A-Fa-f]{2}|\\\\.|[^\\\\]/gsu'],
    reason: 'the pieces are joined again'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: "if (/^\\\\[0-9A-Fa-f]{2}$/.test(piece)) bytes.push(Buffer.from(piece.slice(1), 'hex'))",
    changes: ['/^\\\\[0-9A-Fa-f]{2}$/ → /\\\\[0-9A-Fa-f]{2}$/', '/^\\\\[0-9A-Fa-f]{2}$/ → /^\\\\[0-9A-Fa-f]{2}/'],
    reason: 'a piece is a whole escape, or contains no backslash'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: 'else if (/^\\\\[ "#+,;<=>\\\\]$/.test(piece)) bytes.push(Buffer.from(piece.slice(1)))',
    changes: ['/^\\\\[ "#+,;<=>\\\\]$/ → /\\\\[ "#+,;<=>\\\\]$/', '/^\\\\[ "#+,;<=>\\\\]$/ → /^\\\\[ "#+,;<=>\\\\]/'],
    reason: 'a piece is a whole escape, or contains no backslash'
  },
  {
    module: 'gateway/values/distinguished-names.ts',
    line: 'const isShortString = STRING_TAGS.has(bytes[0] ?? 0) && bytes[1] === bytes.length - 2 && bytes.length < 130',
    changes: ['0 → 1 (2)'],
    reason: 'for the type alone: there is at least one byte'
  },
  {
    module: 'gateway/routes/grants.ts',
    line: 'const wanted = list[index]?.tenant',
    changes: ['?. → .'],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/routes/in-parts.ts',
    line: 'const TURN_MS = 4',
    changes: ['4 → 5'],
    reason: 'how long a part may take is a matter of tuning'
  },
  {
    module: 'gateway/routes/in-parts.ts',
    line: 'if (performance.now() - began < TURN_MS) continue',
    changes: ['< → <='],
    reason: 'how long a part may take is a matter of tuning'
  },
  {
    module: 'gateway/routes/in-parts.ts',
    line: 'const PART = 64',
    changes: ['64 → 65'],
    reason: 'how many items make a part is a matter of tuning'
  },
  {
    module: 'gateway/routes/in-parts.ts',
    line: 'let count = 0',
    changes: ['0 → 1'],
    reason: 'how many items make a part is a matter of tuning'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: 'const readings = /\\+|%2B/.test(path) ? TRIMS_WITH_PLUS : TRIMS',
    changes: ['/\\+|%2B/.test(path) → true'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/own-routes.ts',
    line: "['GET', '/auth/me', 'any-token'],",
    changes: ["'any-token' → ''"],
    reason: 'a kind of access without an entry in TOKEN_KINDS accepts any token, as this one does'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: "const dot = last?.lastIndexOf('.') ?? -1",
    changes: ['-1 → 1', '1 → 2'],
    reason: 'where there is no last segment, the answer is the same'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: 'if (/[\\w-]$/.test(cut) && /^[\\w-]/.test(cut)) return [cut]',
    changes: ['/[\\w-]$/.test(cut) && /^[\\w-]/.test(cut) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: "path => path.replace(/%(?:23|3F).*$/s, ''),",
    changes: ['/%(?:23|3F).*$/s → /%(?:23|3F).*/s'],
    reason: 'the quantifier takes everything to the end by itself'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: 'if (hasOneReading(path)) return [readSegments(path, asWritten, depth, skipsScripts)]',
    changes: ['hasOneReading(path) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: '/^[\\x00-\\x7f]*$/.test(text)',
    changes: ['/^[\\x00-\\x7f]*$/.test(text) → false', '/^[\\x00-\\x7f]*$/ → /^[\\x00-\\x7f]$/'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: "while (end > 0 && segment.charAt(end - 1) === '.') end -= 1",
    changes: ['> → >='],
    reason: 'there is no character before the first'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: 'while (start <= path.length && segments.length <= depth + 1) {',
    changes: ['<= → <'],
    reason: 'an empty segment at the end is dropped'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'if (isPlainPath(rawPath)) return matchPlain(spellings, method, rawPath)',
    changes: ['isPlainPath(rawPath) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'return isDottedPath(rawPath) ? matchDotted(spellings, method, rawPath) : matchUnusual(spellings, method, rawPath)',
    changes: ['isDottedPath(rawPath) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'let nextNumber = 0',
    changes: ['0 → 1'],
    reason: 'at which number the first table begins is of no importance'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: "Object.assign({ ...ROUTE_DEFAULTS }, route, { number: nextNumber++, coversBelow: route.path.endsWith('/*') })",
    changes: ['{ ...ROUTE_DEFAULTS } → {}'],
    reason: 'only lays the fields out in memory: the route has all of them'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'const leadsHere = shorter.every(reading => findRoute(spellings.folded, method, reading) === route)',
    changes: ['findRoute(spellings.folded, method, reading) === route → undefined'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'return leadsHere ? match : judgeShorter(spellings, method, route, path, [segments])',
    changes: ['leadsHere → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'if (!/\\.|%2E/.test(path)) return { route, path }',
    changes: ['!/\\.|%2E/.test(path) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'for (const trie of folded === decoded ? [folded] : [decoded, folded]) {',
    changes: ['folded === decoded → false'],
    reason: 'the same tree is asked twice'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'if (hasOneReading(path)) return leadsHere(folded, segmentsOf(path, depth).map(foldLetters))',
    changes: ['hasOneReading(path) → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: "for (const segment of shapeOf(route.path)) if (!segment.startsWith(':')) statics.add(segment)",
    changes: ["!segment.startsWith(':') → true"],
    reason: 'one more tree, with the same answers'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'let isDecoded = false',
    changes: ['false → true'],
    reason: 'one more tree, with the same answers'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'let isFolded = false',
    changes: ['false → true'],
    reason: 'one more tree, with the same answers'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'const exact = isDecoded ? yield* build(asWritten, earlier => earlier) : decoded',
    changes: ['isDecoded → true'],
    reason: 'one more tree, with the same answers'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'const folded = isFolded ? yield* build(foldSegment, keepLowerCase(onCaseTie)) : decoded',
    changes: ['isFolded → true'],
    reason: 'one more tree, with the same answers'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'const [kept, hidden] = rankByCase(earlier) <= rankByCase(later) ? [earlier, later] : [later, earlier]',
    changes: ['<= → <'],
    reason: 'routes with different signatures have different ranks'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'return foldLetters(text) === text ? `0${text}` : `1${text}`',
    changes: ['`0${text}` → ``'],
    reason: 'of the routes compared, only one can be in lower case'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: ".map(segment => (segment.startsWith(':') ? ':' : decodeSegment(segment)))",
    changes: ["':' → '' (2)"],
    reason: 'no other segment is empty'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: ".join('/')",
    changes: ["'/' → ''"],
    reason: 'the routes compared end in the same node, and so have the same segments but for their case'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: 'let depth = 1',
    changes: ['1 → 2'],
    reason: 'one segment more is looked at, of which no route knows anything'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: 'else if (!addLeaf(node, last, route, spelling)) addRoute(nodeBelow(node, last, spelling), route, onTie)',
    changes: ['!addLeaf(node, last, route, spelling) → true'],
    reason: 'only saves memory: the node says the same as the leaf'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: "if (segment.startsWith(':') || route.methods !== undefined) return false",
    changes: ["segment.startsWith(':') || route.methods !== undefined → true", "':' → ''"],
    reason: 'only saves memory: the node says the same as the leaf'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: "if (segment.startsWith(':') || route.methods !== undefined) return false",
    changes: ['false → undefined'],
    reason: 'asked as a condition only'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: 'if (node.statics?.has(spelt) || node.leaves?.has(spelt)) return false',
    changes: ['node.statics?.has(spelt) || node.leaves?.has(spelt) → true'],
    reason: 'only saves memory: the node says the same as the leaf'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: 'if (node.statics?.has(spelt) || node.leaves?.has(spelt)) return false',
    changes: ['false → undefined'],
    reason: 'asked as a condition only'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: 'const createNode = (): TrieNode => ({',
    changes: ['{ leaves: undefined, statics: undefined, param: undefined, exact: undefined, exactByMethod… → {}'],
    reason: 'only lays the fields out in memory: a field that is absent reads as undefined too'
  },
  {
    module: 'gateway/routes/route-trie.ts',
    line: 'node.leaves?.delete(segment)',
    changes: ['?. → .'],
    reason: 'for the type alone: a leaf was just found in that map'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: "const segments = path.split('/', depth + 3)",
    changes: ['3 → 4'],
    reason:
      'how far behind what routes name a script is looked for is a bound on work: no number of segments is promised'
  },
  {
    module: 'gateway/access/socket-token.ts',
    line: 'for (let i = 0; i < rawHeaders.length; i += 2) {',
    changes: ['< → <='],
    reason: 'behind the last field there is none'
  },
  {
    module: 'gateway/routes/route.ts',
    line: 'number: 0,',
    changes: ['0 → 1'],
    reason: 'a table numbers its routes and says which of them cover what is below'
  },
  {
    module: 'gateway/routes/route.ts',
    line: 'coversBelow: false,',
    changes: ['false → true'],
    reason: 'a table numbers its routes and says which of them cover what is below'
  },
  {
    module: 'gateway/routes/route.ts',
    line: 'public: false,',
    changes: ['false → true'],
    reason: 'overwritten: every route is made with one of its own'
  },
  {
    module: 'gateway/routes/route.ts',
    line: "id: '',",
    changes: ["'' → 'mutated'"],
    reason: 'overwritten: every route is made with one of its own'
  },
  {
    module: 'gateway/routes/route.ts',
    line: "path: '/',",
    changes: ["'/' → ''"],
    reason: 'overwritten: every route is made with one of its own'
  },
  {
    module: 'gateway/routes/route.ts',
    line: "place: { file: '', line: 1, column: 1 }",
    changes: ["{ file: '', line: 1, column: 1 } → {}", "'' → 'mutated'", '1 → 2', '1 → 2 (2)'],
    reason: 'overwritten: every route is made with one of its own'
  },
  {
    module: 'gateway/access/authorize.ts',
    line: "headers: { allow: match.refusal === 'method' ? match.allowed.join(', ') : '' }",
    changes: ["match.refusal === 'method' → true", "'' → 'mutated'"],
    reason: 'for the type alone: the code is given of this refusal only'
  },
  {
    module: 'gateway/routes/route.ts',
    line: "if (stripPrefix === undefined || stripPrefix === '/') return path",
    changes: ["stripPrefix === undefined || stripPrefix === '/' → false", '|| → &&', "'/' → ''"],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/access/match-destination.ts',
    line: "const path = target?.split('?', 1)[0] ?? ''",
    changes: ["'' → 'mutated'"],
    reason: 'where there is no target, no table is asked'
  },
  {
    module: 'gateway/access/match-destination.ts',
    line: 'if (written?.route === undefined || target === undefined) return',
    changes: ['?. → .'],
    reason: 'for the type alone: two matches are made'
  },
  {
    module: 'gateway/access/match-destination.ts',
    line: "const path = target?.split('?', 1)[0] ?? ''",
    changes: ['1 → 2'],
    reason: 'of the parts, the first one is taken'
  },
  {
    module: 'gateway/access/match-destination.ts',
    line: 'if (match?.route === undefined || route === undefined) return',
    changes: ['|| → &&'],
    reason: 'for the type alone: both are set together'
  },
  {
    module: 'gateway/tokens/verified-tokens.ts',
    line: 'const GENERATION = 32_768',
    changes: ['32_768 → 32769'],
    reason: 'how many tokens are remembered is a matter of tuning'
  },
  {
    module: 'gateway/tokens/verified-tokens.ts',
    line: "standing: 'valid',",
    changes: ["'valid' → ''"],
    reason: 'determined before it is read, because no epoch is negative'
  },
  {
    module: 'gateway/tokens/verified-tokens.ts',
    line: 'epoch: -1,',
    changes: ['1 → 2'],
    reason: 'no epoch is negative'
  },
  {
    module: 'gateway/tokens/revocations.ts',
    line: 'if (tokens.has(jti) || expiresAt <= now() / 1000) return false',
    changes: ['false → undefined'],
    reason: 'asked as a condition only'
  },
  {
    module: 'gateway/tokens/revocations.ts',
    line: 'return false',
    changes: ['false → undefined'],
    reason: 'asked as a condition only'
  },
  {
    module: 'gateway/tokens/token-addresses.ts',
    line: 'if (known !== undefined) return known',
    changes: ['known !== undefined → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/tokens/token-addresses.ts',
    line: 'parsed.set(texts, networks)',
    changes: ['parsed.set(texts, networks) → ;'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/tokens/personal-tokens.ts',
    line: 'const SHAPE = /^pt_[A-Za-z0-9_-]{43}$/',
    changes: [
      '/^pt_[A-Za-z0-9_-]{43}$/ → /pt_[A-Za-z0-9_-]{43}$/',
      '/^pt_[A-Za-z0-9_-]{43}$/ → /^pt_[A-Za-z0-9_-]{43}/'
    ],
    reason: 'a shortcut: the table holds the hash of no text of another form'
  },
  {
    module: 'gateway/tokens/personal-tokens.ts',
    line: 'const find = (token: string) => (SHAPE.test(token) ? tokens.get(hashPersonalToken(token)) : undefined)',
    changes: ['SHAPE.test(token) → true'],
    reason: 'a shortcut: the table holds the hash of no text of another form'
  },
  {
    module: 'gateway/tokens/sealed-keys.ts',
    line: "const bytes = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])",
    changes: ["'utf8' → ''"],
    reason: 'a text without a named encoding is taken as UTF-8 too'
  },
  {
    module: 'gateway/tokens/claims.ts',
    line: 'const MOST_PEOPLE = 65_536',
    changes: ['65_536 → 65537'],
    reason: 'how many people share their descriptions is a matter of tuning'
  },
  {
    module: 'gateway/limits/limiter.ts',
    line: 'const REDIS_TIMEOUT_MS = 100',
    changes: ['100 → 101'],
    reason: 'a millisecond more or less is a matter of tuning'
  },
  {
    module: 'gateway/limits/limiter.ts',
    line: 'const SWEEP_MS = 1000',
    changes: ['1000 → 1001'],
    reason: 'a millisecond more or less is a matter of tuning'
  },
  {
    module: 'gateway/limits/limiter.ts',
    line: "const instance = `${parts.instance ?? process.pid}-${randomBytes(6).toString('base64url')}`",
    changes: ['?? → &&'],
    reason: 'the name is for people: its random part makes it unique'
  },
  {
    module: 'gateway/limits/limiter.ts',
    line: "const instance = `${parts.instance ?? process.pid}-${randomBytes(6).toString('base64url')}`",
    changes: ['6 → 7'],
    reason: 'how many random bytes make a name unique is a matter of tuning'
  },
  {
    module: 'gateway/limits/limiter.ts',
    line: 'const started: CircuitState = { up: true, since: Date.now(), reason: undefined }',
    changes: ['true → false'],
    reason: 'asked only with Redis, whose circuit has a state of its own'
  },
  {
    module: 'gateway/limits/limiter.ts',
    line: 'if (window.lease !== undefined) shared.spent(window.lease)',
    changes: ['window.lease !== undefined → true'],
    reason: 'for the type alone: where permits are in hand, there is a lease'
  },
  {
    module: 'gateway/tokens/access-token.ts',
    line: 'if (parts.length !== 3 || headerPart === undefined || payloadPart === undefined) return BAD_SIGNATURE',
    changes: ['|| → && (2)'],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/websocket/utf8-stream.ts',
    line: 'for (let back = 1; back <= 3 && back <= end; back++) {',
    changes: ['&& → ||'],
    reason:
      'before the first byte a 0 is read, which ends the search with the same answer; more than three continuations complete no character'
  },
  {
    module: 'gateway/websocket/utf8-stream.ts',
    line: 'return true',
    changes: ['true → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/websocket/utf8-stream.ts',
    line: 'if (carry === 0 && end - begin <= SHORT_BYTES && isMaskedAscii(source, begin, end, mask, position)) return 0',
    changes: ['carry === 0 && end - begin <= SHORT_BYTES && isMaskedAscii(source, begin, end, mask, posit… → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/websocket/dial.ts',
    line: 'return true',
    changes: ['true → undefined'],
    reason: 'only `false` stops the reading'
  },
  {
    module: 'gateway/websocket/dial.ts',
    line: "return () => settle(() => socket.on('error', ignore).destroy())",
    changes: ["'error' → ''"],
    reason: 'a precaution: a socket that was destroyed without an error emits none'
  },
  {
    module: 'gateway/websocket/forward.ts',
    line: 'maxMessageBytes: websocket?.maxMessageBytes ?? 1024 * 1024,',
    changes: ['* → /'],
    reason: 'for the type alone: only routes with `websocket` lead here'
  },
  {
    module: 'gateway/http/server/server.ts',
    line: 'this.destroy()',
    changes: ['this.destroy() → ;'],
    reason: 'a socket has destroyed itself by the time it emits an error'
  },
  {
    module: 'gateway/http/server/llhttp.ts',
    line: 'const [start = 0, stop = 0] = [data[i], data[i + 1]]',
    changes: ['0 → 1'],
    reason: 'for the type alone: there is always something here (noUncheckedIndexedAccess)'
  },
  {
    module: 'gateway/http/client-address.ts',
    line: "if (!element.startsWith('[') && (!element.includes('.') || !element.includes(':'))) return element",
    changes: ['|| → &&'],
    reason: 'a shortcut: without a dot or without a colon, an address is returned as it is in the long way too'
  },
  {
    module: 'gateway/http/head.ts',
    line: 'authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]',
    changes: ['authorization === undefined → false'],
    reason: 'for the type alone: the pattern does not match `undefined` as text'
  },
  {
    module: 'gateway/http/own-endpoints.ts',
    line: "const length = exchange.request.method === 'HEAD' ? answer.headers['content-length'] : rawPayload.length",
    changes: ["exchange.request.method === 'HEAD' → true"],
    reason: 'Fastify states the length of every payload that is no stream, and none of ours is one'
  },
  {
    module: 'gateway/upstream/parser.ts',
    line: "const isWhole = head.framing === 'none' || (head.framing === 'length' && bodyEnd <= text.length)",
    changes: ['<= → <'],
    reason: 'a shortcut: the body then follows its head as a part of its own'
  },
  {
    module: 'gateway/upstream/lookup.ts',
    line: 'for (const one of told) task(one)(isUsable ? null : error, isUsable ? answer : undefined)',
    changes: ['isUsable → true (2)'],
    reason: 'with an error the answer is not looked at, and without one it is usable'
  },
  {
    module: 'gateway/upstream/connection.ts',
    line: 'if (this.destroyed) return false',
    changes: ['this.destroyed → false'],
    reason: 'what a connection reads after its end reaches no request either way'
  },
  {
    module: 'gateway/login/recheck.ts',
    line: 'if (now < leads.askAt) return now < leads.until',
    changes: ['< → <= (2)'],
    reason: 'a round at this very instant may go either way'
  },
  {
    module: 'gateway/directory/directory.ts',
    line: 'const { failureFloorMs = FAILURE_FLOOR_MS, explanationMs = EXPLANATION_MS, maxConcurrent = 1000, clock } = options',
    changes: ['1000 → 1001'],
    reason: 'how many logins may be in progress is a matter of tuning'
  },
  {
    module: 'gateway/store/database.ts',
    line: 'idleTimeoutMillis: 30_000,',
    changes: ['30_000 → 30001'],
    reason: 'a millisecond more or less is a matter of tuning'
  },
  {
    module: 'gateway/store/granted-access.ts',
    line: 'const key = storableKey(groupKey(provider, group), 2048)',
    changes: ['2048 → 2049'],
    reason: 'how long the name of a group may be is a matter of tuning'
  },
  {
    module: 'gateway/login/throttle/account-permits.ts',
    line: "await settle('returned')",
    changes: ["'returned' → ''"],
    reason: 'only the other outcomes are asked for'
  },
  {
    module: 'gateway/routes/index-files.ts',
    line: 'return { ...route, path, coversBelow: false }',
    changes: ['false → true'],
    reason: 'only lets more paths be looked up than could lead to an index file'
  },
  {
    module: 'gateway/routes/index-files.ts',
    line: 'if (findRoute(directories, method, segments) === undefined) continue',
    changes: ['findRoute(directories, method, segments) === undefined → false', 'continue → ;'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/index-files.ts',
    line: "if (found !== undefined && found !== 'reserved' && isIndexOf(found, name, segments.length)) others.add(found)",
    changes: ["'reserved' → ''"],
    reason: 'a text has no path, and so is the route of no index file'
  },
  {
    module: 'gateway/access/authenticate.ts',
    line: "pathHoldsOwnToken(head.host ?? '', isOurs) ||",
    changes: ["'' → 'mutated'"],
    reason: 'neither text holds a token'
  },
  {
    module: 'gateway/access/authenticate.ts',
    line: "pathHoldsOwnToken(head.forwardedHost ?? '', isOurs)",
    changes: ["'' → 'mutated'"],
    reason: 'neither text holds a token'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'return spellings.indexNames.size === 0 ? match : withIndexFiles(match, method, spellings)',
    changes: ['spellings.indexNames.size === 0 → false'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/routes/route-table.ts',
    line: 'if (indexName !== undefined) {',
    changes: ['indexName !== undefined → true'],
    reason: 'without a name the route of the directory is found, which is none of a file in it'
  },
  {
    module: 'gateway/routes/lax-readings.ts',
    line: 'SCRIPT_ON_THE_WAY.test(path) ? laxReadings(path, depth).flatMap(cutAfterScripts) : []',
    changes: ['SCRIPT_ON_THE_WAY.test(path) → true'],
    reason: 'a shortcut: the long way comes to the same answer'
  },
  {
    module: 'gateway/tokens/signing-keys.ts',
    line: 'return successors.length > 0 && nowS - Math.min(...successors) > PUBLISHED_AFTER_S',
    changes: ['> → >='],
    reason: 'without a successor the earliest one is infinitely late'
  },
  {
    module: 'gateway/http/server/outbox.ts',
    line: 'const MAX_COPIED_BYTES = 8 * 1024',
    changes: ['* → /'],
    reason: 'which parts are copied is a matter of speed: the bytes are the same'
  },
  {
    module: 'gateway/http/server/llhttp.ts',
    line: 'for (let i = 0; i < fields.length; i += 2) {',
    changes: ['< → <='],
    reason: 'nothing is found behind the last field'
  },
  {
    module: 'gateway/http/trace-context.ts',
    line: "const [, version, traceId = '', spanId = '', flags = '', rest] = TRACEPARENT.exec(text?.trim() ?? '') ?? []",
    changes: ["'' → 'mutated' (3)"],
    reason: 'with a version, there are flags too'
  },
  {
    module: 'gateway/upstream/checks.ts',
    line: 'clearTimeout(timer)',
    changes: ['clearTimeout(timer) → ;'],
    reason: 'a check that is over does nothing when its time is'
  },
  {
    module: 'gateway/upstream/headers/header-rules.ts',
    line: 'blocks.set(identity.user, block)',
    changes: ['blocks.set(identity.user, block) → ;'],
    reason: 'only saves work'
  },
  {
    module: 'gateway/upstream/headers/public-addresses.ts',
    line: "const [pair = '', ...attributes] = setCookie.split(';')",
    changes: ["'' → 'mutated'"],
    reason: 'for the type alone: a text has a first part'
  },
  {
    module: 'gateway/websocket/utf8-stream.ts',
    line: 'for (const last = range.to - 3; i < last; i += 4, out += 4) {',
    changes: ['< → <='],
    reason: 'one byte more is written, which is beyond the end of the target or written again by what follows'
  },
  {
    module: 'gateway/websocket/utf8-stream.ts',
    line: 'if (i < range.to) target[out++] = (source[i++] ?? 0) ^ m2',
    changes: ['< → <='],
    reason: 'one byte more is written, which is beyond the end of the target or written again by what follows'
  },
  {
    module: 'gateway/store/login-memory.ts',
    line: 'if (who === undefined || from === undefined) return false',
    changes: ['|| → &&'],
    reason: 'what cannot be stored is asked for as NULL, which equals nothing'
  },
  {
    module: 'gateway/store/entities.ts',
    line: "areaId: { type: Number, name: 'area_id', primary: true }",
    changes: ['true → false'],
    reason: 'these rows are only inserted, and deleted by person'
  },
  {
    module: 'gateway/store/folded-text.ts',
    line: "const FOLDED = new Map([...WHOLE].map((letter, i) => [letter, PLAIN[i] ?? '']))",
    changes: ["'' → 'mutated'"],
    reason: 'for the type alone: each letter has its plain one'
  },
  {
    module: 'gateway/directory/log-in.ts',
    line: 'if (where === undefined) return undefined',
    changes: ['where === undefined → false'],
    reason: 'an explanation that fails is none: without a place to search it fails at once, and bindThenRead catches it'
  },
  {
    module: 'gateway/cloud/provider-metadata.ts',
    line: "token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic']",
    changes: ["'client_secret_basic' → ''"],
    reason: 'the first one known is tried first, and the other one after it in any case'
  },
  {
    module: 'gateway/cloud/client.ts',
    line: 'if (metadata.jwks_uri !== undefined) oidc.enableNonRepudiationChecks(config)',
    changes: ['metadata.jwks_uri !== undefined → false'],
    reason:
      'a second bolt: the ID token is verified apart, and a signed profile is refused without a known algorithm, of which we keep none'
  },
  {
    module: 'gateway/http/server/outbox.ts',
    line: 'const MAX_TEXT_LENGTH = 64 * 1024',
    changes: ['* → /'],
    reason: 'which parts are copied is a matter of speed: the bytes are the same'
  }
]
