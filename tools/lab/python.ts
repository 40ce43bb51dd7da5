// The Python of the lab, with the packages of all programs and services that are no applications of their own.
import { join } from 'node:path'
import { pip } from './installed.ts'
import type { Lab, Start } from './system.ts'

export const PYTHON_PACKAGES = {
  django: '5.2.19',
  gunicorn: '27.0.1',
  fastapi: '0.165.0',
  'python-multipart': '0.0.34',
  'pyjwt[crypto]': '2.15.1',
  'python-socketio': '5.18.1',
  'python-engineio': '4.15.1',
  aiohttp: '3.14.5',
  uvicorn: '0.54.0',
  websockets: '17.4',
  wsproto: '1.3.2',
  requests: '2.34.2',
  'websocket-client': '1.9.2',
  jupyterlab: '4.6.6'
} as const

export const python = async (): Promise<string> => join(await pip(PYTHON_PACKAGES), 'python')

/** Starts an application in a module, `module:app`, of the lab's folder or the one that `words` name. */
export const startUvicorn = async (lab: Lab, app: string, options: Start = {}, words: readonly string[] = []) =>
  lab.start(await python(), ['-m', 'uvicorn', app, '--port', 'PORT', '--log-level', 'error', ...words], options)
