// Describes and reads the option `app`: how /auth/apps shows what is behind a route.
import type { App } from '../../routes/route.ts'
import type { Complain } from '../complaint.ts'
import { record, text } from '../schema/forms.ts'

type AppData = Partial<App> & Pick<App, 'name'>

const HERE = '/(?![/\\\\])[!-~]*'

export const appSchema = record(
  'a map with name, description, icon and url',
  'Lists the route on /auth/apps for the people who may open it.',
  {
    name: text('a name', 'Name of the application.', 'Grafana', { maxLength: 64, pattern: '\\S' }),
    description: text('a text', 'What it is for, in a few words.', 'Dashboards', { maxLength: 200 }),
    icon: text(
      'a path that begins with /',
      'Picture on this origin. Without one, the first letter of the name is shown.',
      '/grafana/public/img/grafana_icon.svg',
      { maxLength: 2048, pattern: `^${HERE}$` }
    ),
    url: text(
      'a path that begins with /, or an address such as https://app.example.org/',
      'Where the application opens. Without it, the path of the route; required if that has :name in it.',
      '/grafana/d/home',
      { maxLength: 2048, pattern: `^(?:${HERE}|https?://[!-~]+)$` }
    )
  },
  { required: ['name'], examples: [{ name: 'Grafana', description: 'Dashboards' }] }
)

/** `data` has passed the schema. */
export const defineApp = ({ name, description = '', icon = '', url = '' }: AppData, say: Complain): App => {
  if (url !== '' && !URL.canParse(url, 'http://localhost')) say('not an address that a browser can open', 'app', 'url')
  return { name, description, icon, url }
}
