# The image of `evenkeel up`: one static binary, for a user without privileges. From the root of the repository:
#   docker build -t evenkeel .
#   docker run --rm -p 127.0.0.1:6443:6443 -v "$PWD/kube:/kube" --user "$(id -u)" evenkeel
#   export KUBECONFIG=$PWD/kube/config
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p evenkeel-cli \
    && cp target/release/evenkeel /evenkeel \
    && mkdir /kube

FROM scratch
COPY --from=build /evenkeel /evenkeel
COPY --from=build --chown=65532:65532 /kube /kube
USER 65532:65532
EXPOSE 6443
ENTRYPOINT ["/evenkeel"]
CMD ["up", "--bind", "0.0.0.0:6443", "--kubeconfig", "/kube/config"]
