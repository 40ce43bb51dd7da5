// Rewrites the `html` templates of a browser module as TSX, so that TypeScript checks the names and types of what they pass.

/** Where a string, comment or regular expression that begins at `at` ends; `at` itself if none does. */
const skipFrom = (source: string, at: number): number => {
  const rest = (pattern: RegExp): number => {
    pattern.lastIndex = at
    return pattern.test(source) ? pattern.lastIndex : at
  }
  switch (source[at]) {
    case "'":
      return rest(/'(?:[^'\\\n]|\\.)*'/y)
    case '"':
      return rest(/"(?:[^"\\\n]|\\.)*"/y)
    case '/': {
      const comment = rest(/\/\/[^\n]*|\/\*[\s\S]*?\*\//y)
      const mayBegin = /(?:^|[(,=:[!&|?{};+\n]|=>|return)\s*$/.test(source.slice(Math.max(0, at - 20), at))
      return comment > at || !mayBegin ? comment : rest(/\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y)
    }
    default:
      return at
  }
}

/** Code up to the `}` that closes the expression it stands in, or to its end. */
const readCode = (source: string, from: number): { readonly text: string; readonly end: number } => {
  let [text, depth, at] = ['', 0, from]
  while (at < source.length) {
    const letter = source[at] ?? ''
    const end = skipFrom(source, at)
    if (end > at) {
      text += source.slice(at, end)
      at = end
    } else if (letter === '`') {
      const isPage = text.endsWith('html')
      const read = isPage ? readTemplate(source, at + 1) : readText(source, at + 1)
      text = isPage ? `${text.slice(0, -4)}(${read.text})` : text + read.text
      at = read.end
    } else {
      if (letter === '{') depth++
      if (letter === '}' && depth-- === 0) return { text, end: at }
      text += letter
      at++
    }
  }
  return { text, end: at }
}

/** A template of plain text. */
const readText = (source: string, from: number): { readonly text: string; readonly end: number } => {
  let [text, at] = ['`', from]
  while (source[at] !== '`') {
    if (source.startsWith('${', at)) {
      const code = readCode(source, at + 2)
      text += `\${${code.text}}`
      at = code.end + 1
    } else {
      const length = source[at] === '\\' ? 2 : 1
      text += source.slice(at, at + length)
      at += length
    }
  }
  return { text: `${text}\``, end: at + 1 }
}

/** A template of a page, as a fragment. */
const readTemplate = (source: string, from: number): { readonly text: string; readonly end: number } => {
  const open: string[] = []
  let [text, at, isTag] = ['<>', from, false]
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(source)?.[0]
    at += found?.length ?? 0
    return found
  }
  const code = (): string => {
    const read = readCode(source, at + 2)
    at = read.end + 1
    return read.text
  }
  while (source[at] !== '`') {
    if (isTag) {
      if (take(/\/>/y)) {
        text += '/>'
        open.pop()
        isTag = false
      } else if (take(/>/y)) {
        text += '>'
        isTag = false
      } else if (take(/\.\.\.(?=\$\{)/y)) text += `{...${code()}}`
      else if (source.startsWith('${', at)) text += `{${code()}}`
      else if (take(/"(?=[^"]*\$\{)/y)) throw new Error(`an attribute of mixed parts: ${source.slice(at, at + 40)}`)
      else text += (take(/"[^"]*"|[\s\S]/y) ?? '').replace(/^"(-?\d+|true|false)"$/, '{$1}')
    } else if (take(/<\//y)) {
      take(/\/|[\w-]+/y)
      text += `</${open.pop()}`
      isTag = true
      take(/\s*(?=>)/y)
    } else if (take(/<(?=\$\{)/y)) {
      const name = code()
      text += `<${name}`
      open.push(name)
      isTag = true
    } else if (source[at] === '<') {
      const name = take(/<[\w-]+/y) ?? ''
      text += name
      open.push(name.slice(1))
      isTag = true
    } else if (source.startsWith('${', at)) text += `{${code()}}`
    else text += take(/[{}>]/y)?.replace(/./, sign => `{'${sign}'}`) ?? take(/[\s\S]/y)
  }
  return { text: `${text}</>`, end: at + 1 }
}

export const templatesAsTsx = (source: string): string => {
  const { text, end } = readCode(source, 0)
  if (end !== source.length) throw new Error('a brace that nothing opens')
  // A lone type parameter of an arrow function would be an element.
  return text.replace(/<(\w+)>(?=\()/g, (whole, name: string, at: number) =>
    /= ?$/.test(text.slice(0, at)) ? `<${name},>` : whole
  )
}
