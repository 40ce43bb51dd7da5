// Lists the applications of the lab.
import type { App } from './app.ts'
import { rabbitMq } from './brokers.ts'
import { DATA_APPS } from './data-apps.ts'
import { FRAMEWORKS } from './frameworks.ts'
import { WEB_APPS } from './web-apps.ts'

export const APPS: readonly App[] = [...DATA_APPS, ...WEB_APPS, ...FRAMEWORKS, rabbitMq]
