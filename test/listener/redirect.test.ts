import t from 'tap'
import { redirectLocation } from '../../gateway/listener/redirect.ts'

t.test('path and query are kept on the public origin, whatever form the target has', async t => {
  const locations: readonly [target: string, location: string][] = [
    ['/', 'https://gw.example/'],
    ['/a/b?c=d&e', 'https://gw.example/a/b?c=d&e'],
    ['//evil.example/x', 'https://gw.example//evil.example/x'],
    ['http://evil.example/a?b', 'https://gw.example/a?b'],
    ['http://evil.example', 'https://gw.example/'],
    ['http://evil.example?b', 'https://gw.example/?b'],
    ['*', 'https://gw.example/'],
    ['evil.example:443', 'https://gw.example/'],
    ['@evil.example/', 'https://gw.example/'],
    ['/a#b', 'https://gw.example/a'],
    ['/\xe9', 'https://gw.example/%E9'],
    [`/${'a'.repeat(9000)}`, 'https://gw.example/']
  ]
  for (const [target, location] of locations) t.equal(redirectLocation('https://gw.example', target), location, target)
})
