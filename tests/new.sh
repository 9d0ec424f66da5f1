#!/usr/bin/env bash
# From an empty folder to production. `cargo add evenkeel` alone leads to a program that builds. `evenkeel new` writes an
# operator whose tests pass, which runs on its embedded cluster, and which Helm installs on `evenkeel up`, where it runs as a
# process of this script with the rights of its ServiceAccount.
# Usage: tests/new.sh [folder of the binaries]; EVENKEEL_HELM names helm, if it is not in the PATH. EVENKEEL_NEW=full also
# builds what `cargo add` alone leads to, does the same with webhooks and outside of namespaces, does what the CI workflow of a
# new operator does, and measures its static binary.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
binaries=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug}")
helm=${EVENKEEL_HELM:-helm}
evenkeel=$binaries/evenkeel
# The operators are built with the dependencies of this workspace in the same versions, which need not be built again. The
# variable is that of the workspace: another value would build the types of Kubernetes, and all that uses them, again and again.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} K8S_OPENAPI_ENABLED_VERSION=1.36
. tests/checks.sh
operator=
end_operator() {
  [ -n "$operator" ] && kill "$operator" 2>/dev/null && wait "$operator" 2>/dev/null
  operator=
}
trap 'end_operator; cleanup' EXIT

# in_folder FOLDER COMMAND...: runs a command in a folder. The folders of this script are outside of the workspace, so that its
# settings for cargo do not apply.
in_folder() { (cd "$work/$1" && shift && "$@"); }

# on_its_own COMMAND...: runs a command without the workspace's choice of a Kubernetes version.
on_its_own() { in_folder hello env -u K8S_OPENAPI_ENABLED_VERSION CARGO_TARGET_DIR="$CARGO_TARGET_DIR/new" "$@"; }

# until_it_works COMMAND...: tries a command for at most a minute.
until_it_works() {
  for _ in $(seq 120); do
    "$@" 2>/dev/null && return
    sleep 0.5
  done
  "$@"
}

# --- the library alone ---------------------------------------------------------------------------------------------
mkdir "$work/hello"
expect "an empty package" '' in_folder hello cargo init --quiet --vcs none --name hello
expect "cargo add evenkeel" 'Adding evenkeel' in_folder hello cargo add evenkeel --path "$root/crates/evenkeel"
cat >"$work/hello/src/main.rs" <<'RUST'
use std::sync::Arc;

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::prelude::*;

async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> evenkeel::Result<Action> {
    let mut secret = Secret::default();
    secret.metadata.name = map.metadata.name.clone();
    ctx.apply(secret).await?;
    Ok(Action::await_change())
}

fn main() {
    let _controller = Controller::new("twin", reconcile).owns::<Secret>();
}
RUST
cp Cargo.lock "$work/hello"
expect "a version of Kubernetes is chosen" 'k8s-openapi feature "v1_36"' on_its_own cargo tree -e features -i k8s-openapi
if [ "${EVENKEEL_NEW:-}" = full ]; then
  expect "it builds with nothing else" '' on_its_own cargo check --quiet
fi

# start NAME [FLAGS]: starts an operator by `evenkeel new`.
start() {
  local name=$1
  expect "new $name" "created $name" in_folder . "$evenkeel" new "$@" --group shop.example.com --path "$root" </dev/null
  refuse "new $name again" 'already exists: nothing was written' in_folder . "$evenkeel" new "$@" </dev/null
  cp Cargo.lock "$work/$name"
  expect "the tests of $name" 'test result: ok. [1-9]' in_folder "$name" cargo test --quiet
  expect "the format of $name" '' in_folder "$name" cargo fmt --check
  if [ "${EVENKEEL_NEW:-}" = full ]; then
    expect "the lints of $name" '' in_folder "$name" cargo clippy --quiet --all-targets -- -D warnings
    expect "$name without the embedded cluster" '' in_folder "$name" cargo check --quiet --no-default-features
  fi
}

# embedded NAME KUBECTL...: runs an operator on its embedded cluster until the kubectl command prints `hello`.
embedded() {
  # Not `name`, which is a variable of `expect`, too.
  local shop=$1
  shift
  (cd "$work/$shop" && TMPDIR=$work exec cargo run --quiet -- --embedded --samples) >"$work/$shop.out" 2>"$work/$shop.log" &
  operator=$!
  until_it_works grep -q '^kubectl: ' "$work/$shop.out"
  greets() { [ "$(k --kubeconfig "$work/$shop.kubeconfig" "$@")" = hello ]; }
  expect "$shop reconciles its sample" '' until_it_works greets "$@"
}

# --- an operator -----------------------------------------------------------------------------------------------------
start web-shop
embedded web-shop get configmap sample -o 'jsonpath={.data.message}'
end_operator

# --- in production ---------------------------------------------------------------------------------------------------
web_shop() { in_folder web-shop "$CARGO_TARGET_DIR/debug/web-shop" "$@"; }
expect "write a chart" '' web_shop manifests --helm "$work/chart" --image web-shop:1
"$evenkeel" up --bind 127.0.0.1:0 --kubeconfig "$work/kubeconfig" >"$work/out" 2>"$work/err" &
server=$!
until_says '^ready: '
export KUBECONFIG=$work/kubeconfig HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm
h() { timeout 120 "$helm" --namespace shop "$@"; }
expect "lint the chart" '0 chart\(s\) failed' h lint --strict "$work/chart"
expect "install the chart" 'STATUS: deployed' h install shop "$work/chart" --create-namespace
expect "its definition is served" 'condition met' k wait --for=condition=Established crd/webshops.shop.example.com --timeout=30s
token=$(k -n shop create token web-shop)
cp "$KUBECONFIG" "$work/account"
k --kubeconfig "$work/account" config set-credentials account --token="$token" >/dev/null
k --kubeconfig "$work/account" config set-context --current --user=account --namespace=shop >/dev/null
# In a pod, the definitions are not installed by the operator.
(cd "$work/web-shop" && KUBERNETES_SERVICE_HOST=x KUBECONFIG=$work/account exec "$CARGO_TARGET_DIR/debug/web-shop") >/dev/null 2>"$work/account.log" &
operator=$!
expect "apply the sample" 'created' k apply -f "$work/web-shop/samples/sample.yaml"
expect "it is reconciled by the account" 'condition met' k wait --for=jsonpath='{.status.ready}'=true webshop/sample --timeout=60s
expect "drift is corrected" 'patched' k patch configmap sample --type=merge -p '{"data":{"message":"changed by hand"}}'
expect "by the account" 'condition met' k wait --for=jsonpath='{.data.message}'=hello configmap/sample --timeout=60s
expect "nothing was forbidden" '^0$' sh -c "grep -c -i forbidden '$work/account.log' || true"
refuse "the account may do nothing else" 'no' k auth can-i delete configmaps --as=system:serviceaccount:shop:web-shop
end_operator
expect "uninstall" 'uninstalled' h uninstall shop

# --- with webhooks, and outside of namespaces --------------------------------------------------------------------------
if [ "${EVENKEEL_NEW:-}" = full ]; then
  start hook-shop --cluster-scoped --webhook
  embedded hook-shop get configmap sample -o 'jsonpath={.data.message}'
  refuse "its webhook is asked" 'spec.message: Invalid value: "bye ": must not begin or end with a space' \
    k --kubeconfig "$work/hook-shop.kubeconfig" patch hookshop sample --type=merge -p '{"spec":{"message":"bye "}}'
  end_operator

  # --- mistakes ----------------------------------------------------------------------------------------------------------
  # mistake NAME FILE SED PATTERN: the tests of web-shop fail after this change of a file, and say what to do.
  mistake() {
    cp "$work/web-shop/$2" "$work/kept"
    sed -i "$3" "$work/web-shop/$2"
    refuse "$1" "$4" in_folder web-shop cargo test --quiet
    cp "$work/kept" "$work/web-shop/$2"
  }
  mistake "who forgets owns" src/lib.rs '/owns ConfigMap,/d' 'add `owns .*ConfigMap` to `WebShopKinds` in its `kinds!`'
  mistake "who forgets the definition" tests/it.rs '/WebShop::crd/d' 'apply its CustomResourceDefinition first'
  mistake "who does more than was recorded" verbs.txt '/^configmaps: /d' 'EVENKEEL_UPDATE=1'

  # What the Dockerfile does, if the target is installed.
  target=$(uname -m)-unknown-linux-musl
  if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    flag="--target $target"
  else
    echo "the target $target is not installed: measured with the C library of this machine" && flag=
  fi
  # shellcheck disable=SC2086
  expect "an image's binary" '' in_folder web-shop cargo build --quiet --release --locked --no-default-features $flag
  find "$CARGO_TARGET_DIR" -path '*/release/web-shop' -newer "$work/chart/Chart.yaml" -size +0 -exec ls -l {} +
fi
ends TERM
