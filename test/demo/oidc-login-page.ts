// Renders the login page of the demo's cloud provider: who can log in, and a field for the password.
import { escapeHtml } from '../../gateway/pages/page-html.ts'

interface Shown {
  readonly username: string
  readonly name: string
}

const choice = ({ username, name }: Shown, index: number): string => `
      <label><input type="radio" name="username" value="${escapeHtml(username)}" required${index === 0 ? ' checked' : ''}>
        ${escapeHtml(name)} <small>${escapeHtml(username)}</small></label>`

/** A whole HTML page; `isRefused` after a wrong password. */
export const loginPage = (people: readonly Shown[], isRefused: boolean): string => `<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Sample cloud provider</title>
  <style>
    :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
    body { display: grid; place-items: center; min-height: 100vh; margin: 0 }
    form { display: grid; gap: .75rem; padding: 2rem; border: 1px solid; border-radius: .75rem; max-width: 22rem }
    fieldset { display: grid; gap: .25rem; border: 0; margin: 0; padding: 0 }
    h1 { font-size: 1.25rem; margin: 0 }
    small { opacity: .7 }
    input[type=password], button { font: inherit; padding: .5rem; width: 100%; box-sizing: border-box }
  </style>
</head>
<body>
  <form method="post" autocomplete="off">
    <h1>Sample cloud provider</h1>
    ${isRefused ? '<p role="alert">That password is wrong.</p>' : ''}
    <fieldset><legend>Who are you?</legend>${people.map(choice).join('')}
    </fieldset>
    <label>Password <input type="password" name="password" required autofocus></label>
    <button>Log in</button>
  </form>
</body>
</html>
`
