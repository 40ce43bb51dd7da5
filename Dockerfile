# The gateway alone, as `npm run build` makes it: no sources, no packages and no demo, for a read-only root file system.
FROM node:24.21.0-alpine AS build
WORKDIR /portaria
COPY package.json package-lock.json .npmrc ./
# No install scripts are needed: this image already contains Node.js, and esbuild works without its own.
RUN npm ci --ignore-scripts
COPY gateway gateway
COPY migrations migrations
COPY tools/build tools/build
COPY upstream-config upstream-config
# Readable by the image's user even if the checkout was made under umask 077. Source maps are of no use without the sources.
RUN node tools/build/build.ts --no-demo \
  && rm dist/*.map \
  && mkdir /image && cp -r package.json dist upstream-config /image && chmod -R a+rX /image

FROM node:24.21.0-alpine
# The second listener answers the health check, whatever the settings of the public one; only this container can reach it.
ENV NODE_ENV=production OPS_PORT=9090
WORKDIR /portaria
RUN mkdir data && chown node:node data
COPY --from=build /image ./
# Compiled here, because the container cannot keep what it compiles at startup: its user must not be able to change code.
# Node.js looks for the code that the same user has compiled, in a folder that ends in the user's number.
RUN node -e "require('module').enableCompileCache('node_modules/.cache/portaria'); Promise.all(fs.readdirSync('dist').filter(file => /-[A-Z0-9]{8}\.js$/.test(file)).map(file => import('/portaria/dist/' + file))).then(() => process.exit())" \
  && for one in node_modules/.cache/portaria/*-0; do mv "$one" "${one%0}1000"; done \
  && chmod -R a+rX node_modules
# The image's user `node`, as a number so that Kubernetes can verify that it is not root (runAsNonRoot).
USER 1000:1000
EXPOSE 3000
STOPSIGNAL SIGTERM
# Without a proxy (`-Y off`): where the host has one, Docker names it to its containers (http_proxy).
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD wget -Y off -q -O /dev/null "http://127.0.0.1:$OPS_PORT/ready"
# For the young generation see docs/internals.md; half of the container's memory is left for what is not in the heap.
CMD ["node", "--max-semi-space-size=8", "--max-old-space-size-percentage=50", "dist/portaria.cjs", "start"]
