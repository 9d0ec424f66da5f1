#!/usr/bin/env bash
# Installs, upgrades, rolls back and uninstalls the charts of the examples with Helm on `evenkeel up`. The operator runs as
# a process of this script, with the rights of the ServiceAccount that the chart makes.
# Usage: tests/helm.sh [folder of the binaries]; EVENKEEL_HELM names helm, if it is not in the PATH.
set -uo pipefail
cd "$(dirname "$0")/.."
binaries=${1:-${CARGO_TARGET_DIR:-target}/debug}
helm=${EVENKEEL_HELM:-helm}
. tests/checks.sh
operator=
ended() {
  [ -n "$operator" ] && kill "$operator" 2>/dev/null && wait "$operator" 2>/dev/null
  cleanup
}
trap ended EXIT

# The simulated pods' port for metrics leads to the operator's process.
metrics=127.0.0.1:$((30000 + $$ % 10000))
"$binaries/evenkeel" up --bind 127.0.0.1:0 --kubeconfig "$work/kubeconfig" --port-handler "8443=$metrics" >"$work/out" 2>"$work/err" &
server=$!
until_says '^ready: '
export KUBECONFIG=$work/kubeconfig HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm
h() { timeout 120 "$helm" --namespace shop "$@"; }

# --- write ---------------------------------------------------------------------------------------------------------
chart=$work/chart
expect "write a chart" '' "$binaries/my-resource" manifests --helm "$chart" --image my-resource:1
expect "write it again" '' "$binaries/my-resource" manifests --helm "$chart" --image my-resource:1
expect "lint" '0 chart\(s\) failed' h lint --strict "$chart"

# --- install -------------------------------------------------------------------------------------------------------
expect "install" 'STATUS: deployed' h install keeper "$chart" --create-namespace
expect "the notes say how to read metrics" 'my-resource-metrics-reader' h get notes keeper
expect "the definition is served" 'customresourcedefinition' k wait --for=condition=Established crd/myresources.example.com --timeout=30s
expect "the deployment has the image" '^my-resource:1$' k -n shop get deployment my-resource -o 'jsonpath={.spec.template.spec.containers[0].image}'
refuse "a second release is refused" 'exists and cannot be imported' timeout 120 "$helm" install second "$chart" --namespace other --create-namespace

# --- run as the account --------------------------------------------------------------------------------------------
token=$(k -n shop create token my-resource)
k config set-credentials operator --token="$token" >/dev/null
k config set-context operator --cluster="$(k config view -o 'jsonpath={.clusters[0].name}')" --user=operator --namespace=shop >/dev/null
cp "$KUBECONFIG" "$work/operator.kubeconfig"
kubectl --kubeconfig "$work/operator.kubeconfig" config use-context operator >/dev/null
# In a pod, the definitions are not installed by the operator.
KUBERNETES_SERVICE_HOST=x KUBECONFIG=$work/operator.kubeconfig "$binaries/my-resource" \
  --metrics-bind-address "$metrics" >"$work/operator.log" 2>&1 &
operator=$!
expect "apply a sample" 'created' k apply -f examples/my-resource/samples
expect "the operator reconciles it" 'condition met' k wait --for=jsonpath='{.status.phase}'=Ready --all myresources --timeout=60s
# --- ask the operator why, through its Service ---------------------------------------------------------------------
# Its record is served over TLS, and only with a token. The kubeconfig alone leads to it: by the Service of its metrics, the
# API server's proxy, and a token of its own account.
asks() { timeout 60 "$binaries/evenkeel" "$@"; }
expect "record" 'my-resource +woken for default/web: MyResource default/web ' asks record
expect "why" 'my-resource +woken for default/web' asks why myresource/web
expect "top" '^my-resource ' asks top
expect "loops" '' asks loops
expect "the operator by its Service" 'my-resource +woken for' asks record --operator shop/my-resource-metrics:https
expect "save its record" 'saved' asks record --save "$work/record" --operator shop/my-resource-metrics:8443
expect "and read it" '^my-resource ' asks top --record "$work/record"
# The record goes on after the line that is looked for, so its reader is not waited for.
follows() { grep -m 1 'woken for default/web' < <(timeout 20 "$binaries/evenkeel" record --follow --operator shop/my-resource-metrics:https); }
expect "follow its record" 'woken for default/web' follows
refuse "a token that may not read it" 'no operator gives its record' asks record --operator shop/my-resource-metrics:https \
  --token-file <(k create token default)
expect "nothing was forbidden" '^0$' sh -c "grep -c -i forbidden '$work/operator.log' || true"

# --- upgrade, roll back --------------------------------------------------------------------------------------------
sed -i 's/^\( *- \)mr$/\1upgraded/' "$chart/templates/crds.yaml"
expect "upgrade" 'STATUS: deployed' h upgrade keeper "$chart" --set-string image.tag=2 --set leaderElection.enabled=true --set replicas=2
expect "the image is new" '^my-resource:2$' k -n shop get deployment my-resource -o 'jsonpath={.spec.template.spec.containers[0].image}'
expect "the definition is upgraded with the chart" 'upgraded' k get crd myresources.example.com -o 'jsonpath={.spec.names.shortNames}'
expect "several replicas have a budget" '^1$' k -n shop get poddisruptionbudget my-resource -o 'jsonpath={.spec.maxUnavailable}'
expect "roll back" 'Rollback was a success' h rollback keeper 1
expect "the image is the old one" '^my-resource:1$' k -n shop get deployment my-resource -o 'jsonpath={.spec.template.spec.containers[0].image}'
refuse "the budget is deleted" 'not found' k -n shop get poddisruptionbudget my-resource
refuse "a wrong value is refused" 'replica' h upgrade keeper "$chart" --set replica=2

# --- uninstall -----------------------------------------------------------------------------------------------------
kill "$operator" && wait "$operator" 2>/dev/null
operator=
expect "uninstall" 'release "keeper" uninstalled' h uninstall keeper
refuse "the deployment is deleted" 'not found' k -n shop get deployment my-resource
expect "the definition and its objects are kept" 'web' k get myresources
expect "install again" 'STATUS: deployed' h install keeper "$chart" --set crds.keep=false
expect "uninstall with the definitions" 'uninstalled' h uninstall keeper
expect "they are deleted" '' k wait --for=delete crd/myresources.example.com --timeout=30s

# --- webhooks of a process outside of the cluster --------------------------------------------------------------------
# The chart's webhooks and its conversion are called through a Service. `--webhook-url` takes all of them over.
chart=$work/database
expect "write a chart with webhooks" '' "$binaries/database" manifests --helm "$chart" --image database:1
expect "lint it" '0 chart\(s\) failed' h lint --strict "$chart"
k create namespace restricted >/dev/null
k label namespace restricted pod-security.kubernetes.io/enforce=restricted >/dev/null
expect "install it" 'STATUS: deployed' timeout 120 "$helm" --namespace restricted install database "$chart"
expect "its pods pass the restricted level" 'condition met' \
  k -n restricted wait --for=jsonpath='{.status.readyReplicas}'=1 deployment/database --timeout=60s
port=$((20000 + $$ % 10000))
KUBECONFIG=$work/kubeconfig "$binaries/database" --webhook-bind-address "127.0.0.1:$port" --webhook-url "https://127.0.0.1:$port" \
  >"$work/operator.log" 2>&1 &
operator=$!
# Until the process has registered itself, nothing answers behind the Service.
asked() { k -n shop apply -f examples/database/samples 2>&1 | grep -q 'created'; }
registered() {
  for _ in $(seq 120); do
    asked && return
    kill -0 "$operator" 2>/dev/null || break
    sleep 0.5
  done
  cat "$work/operator.log"
  return 1
}
expect "the process answers for the webhooks" '' registered
refuse "its webhook refuses" 'cannot shrink from 2Gi' k -n shop patch databases.v1.example.com orders --type=merge -p '{"spec":{"storage":"1Mi"}}'
expect "no Service is left in the configuration" '^$' \
  k get validatingwebhookconfiguration database -o 'jsonpath={.webhooks[0].clientConfig.service}'
ends TERM
