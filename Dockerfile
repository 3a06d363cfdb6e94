# The image of both processes and the command line: docker build -t weir .
# Its steps are scripts, which the tests run without a container engine (test/image/).

FROM node:26.10.0-trixie-slim AS build
WORKDIR /src
COPY package.json package-lock.json ./
# No dependency needs its install script here: Node is there already.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
# Puts /app, /nodejs, /bin/weir and /bin/ratelimit where the image has them: code is compiled beforehand by its path.
RUN node scripts/image-files.ts /
# Where the files of the host are for their owner alone, so are these.
RUN chmod -R a+rX /app /nodejs package.json scripts
RUN chown -R 65532:65532 /app/compile-cache
USER 65532:65532
RUN node scripts/image-warm-up.ts /
USER 0:0
RUN chown -R 0:0 /app/compile-cache

# The C library, certificates and time zones: no shell, no env, no package manager.
FROM gcr.io/distroless/base-nossl-debian13:nonroot
COPY --from=build /nodejs/ /nodejs/
COPY --from=build /app/ /app/
COPY --from=build /bin/weir /bin/ratelimit /bin/
ENV NODE_ENV=production NODE_COMPILE_CACHE=/app/compile-cache LD_LIBRARY_PATH=/nodejs/lib
USER 65532:65532
WORKDIR /app
# The limiter: 8081 gRPC, 8080 HTTP, 6070 debug. The control plane: 18000 xDS, 19000 probes and metrics.
EXPOSE 8081 8080 6070 18000 19000
# Any command of "weir"; the limiter without one. /bin/ratelimit is the limiter, too.
ENTRYPOINT ["/bin/weir"]
CMD ["limiter"]
