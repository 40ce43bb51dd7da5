// Tells systemd that the gateway serves (Type=notify), as sd_notify(3) says.
import { execFile } from 'node:child_process'
import type { Logger } from 'pino'

/** Node.js cannot send datagrams to a unix socket, so a program of systemd does it. */
export const notifyReady = (log: Logger): void => {
  execFile('systemd-notify', ['--ready'], error => {
    if (error) log.warn({ err: error }, 'systemd cannot be told that the gateway serves; set Type=exec in its unit')
  })
}
