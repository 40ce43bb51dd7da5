# The gateway alone, as `npm run build` makes it: no sources, no packages and no demo, for a read-only root file system.
FROM node:24.21.0-alpine AS build
WORKDIR /portaria
COPY package.json package-lock.json .npmrc ./
# No install scripts are needed: this image already contains Node.js, and esbuild works without its own.
RUN npm ci --ignore-scripts
COPY gateway gateway
COPY migrations migrations
COPY tools/build tools/build
RUN node tools/build/build.ts --no-demo

FROM node:24.21.0-alpine
ENV NODE_ENV=production
WORKDIR /portaria
RUN mkdir data && chown node:node data
COPY --from=build /portaria/package.json ./
COPY --from=build /portaria/dist dist
COPY upstream-config upstream-config
# Compiled here, because the container cannot keep what it compiles at startup: its user must not be able to change code.
RUN node -e "require('module').enableCompileCache('node_modules/.cache/portaria'); Promise.all(fs.readdirSync('dist').filter(file => /-[A-Z0-9]{8}\.js$/.test(file)).map(file => import('/portaria/dist/' + file))).then(() => process.exit())" \
  && chmod -R a+rX .
# The image's user `node`, as a number so that Kubernetes can verify that it is not root (runAsNonRoot).
USER 1000:1000
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --start-interval=1s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT ?? 3000}/health`).then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# See docs/internals.md.
CMD ["node", "--max-semi-space-size=8", "dist/portaria.cjs", "start"]
