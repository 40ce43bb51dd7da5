// Writes the demo's route file: what is public, what the three profiles may do, and tests that state this.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEMO_GROUP } from './directory.ts'

export const writeDemoRoutes = (folder: string, upstreams: { readonly sample: string; readonly messaging: string }) => {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'routes.yaml'), routeFile(upstreams))
}

const routeFile = ({ sample, messaging }: { readonly sample: string; readonly messaging: string }): string => `\
upstreams:
  sample:
    url: ${sample}
  messaging:
    url: ${messaging}

routes:
  - path: /
    upstream: sample
    public: true
  - path: /messaging-demo/*
    upstream: sample
    public: true
    app: { name: Messaging, description: "QR code, status and messages" }
  - path: /api/orders/*                 # everyone who works with orders
    upstream: sample
    roles: [Admin, Supervisor, Agente]
  - path: /api/orders/:id               # only an Admin may delete one
    methods: [DELETE]
    upstream: sample
    roles: [Admin]
  - path: /api/events
    upstream: sample
    roles: [Admin, Supervisor, Agente]
  - path: /api/whoami                   # any valid token
    upstream: sample
  - path: /panel                        # a page for browsers, with the session cookie; without one, the login page comes first
    upstream: sample
    browser: true
    app: { name: Panel, description: Who the backend sees }
  - path: /sales/*                      # applications on /auth/apps: each person sees those that they may open
    upstream: sample
    browser: true
    roles: [Admin, Supervisor, Agente]
    app: { name: Orders, description: Customers and deliveries, icon: /sales/icon.svg }
  - path: /stock/*
    upstream: sample
    browser: true
    roles: [Admin, Supervisor, Agente]
    app: { name: Stock, description: What is on which shelf, icon: /stock/icon.svg }
  - path: /reports/*
    upstream: sample
    browser: true
    roles: [Admin, Supervisor]
    app: { name: Reports, description: Sales by month, icon: /reports/icon.svg }
  - path: /payroll/*
    upstream: sample
    browser: true
    roles: [Admin]
    app: { name: Payroll, description: Salaries and slips, icon: /payroll/icon.svg }
  - path: /*                            # an application at the root of a host of its own, with rules of its own
    host: handbook.localhost
    upstream: sample
    browser: true
    roles: [Admin, Supervisor]
    app: { name: Handbook, description: How we do things here }
  - path: /elsewhere/*                  # another proxy asks at /auth/forward before it serves these
    external: true
    roles: [Admin, Supervisor, Agente]
  - path: /socket.io/*
    upstream: messaging
    socketio: { namespaces: { /messaging: { roles: [Agente, Supervisor, Admin] } } }

grants:
  - { group: "${DEMO_GROUP}", profiles: [Agente], areas: [Suporte] }

tests:
  - GET / as anonymous -> allow
  - GET /messaging-demo/ as anonymous -> allow
  - GET /api/orders as anonymous -> 401
  - GET /api/orders as unassigned -> 403
  - GET /api/orders/1 as Agente -> allow
  - DELETE /api/orders/1 as Agente -> 403
  - DELETE /api/orders/1 as Supervisor -> 403
  - DELETE /api/orders/1 as Admin -> allow
  - GET /api/events as Agente -> allow
  - GET /api/whoami as unassigned -> allow
  - GET /api/orders as group:"${DEMO_GROUP}" -> allow
  - GET /elsewhere/x as unassigned -> 403
  - GET /reports as Agente -> 403
  - GET /payroll as Supervisor -> 403
  - GET https://handbook.localhost/ as anonymous -> 401
  - GET https://handbook.localhost/ as Agente -> 403
  - GET https://handbook.localhost/ as Supervisor -> allow
`
