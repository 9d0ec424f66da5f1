#!/usr/bin/env bash
# Drives kubectl against `evenkeel up` and checks its output. Usage: tests/kubectl.sh [path of the evenkeel binary]
set -uo pipefail
cd "$(dirname "$0")/.."
evenkeel=${1:-${CARGO_TARGET_DIR:-target}/debug/evenkeel}
. tests/checks.sh

# kf DOCUMENT ARGUMENTS...: runs kubectl with a YAML document on stdin. kubectl takes text that begins with a brace for
# JSON, so a document mark goes first.
kf() {
  local document=$1
  shift
  k "$@" -f - <<<"---
$document"
}

printf 'secret-token,alice,u1,"devs,ops"\n' >"$work/tokens.csv"
"$evenkeel" up --bind 127.0.0.1:0 --kubeconfig "$work/kubeconfig" --data-dir "$work/data" \
  --token-auth-file "$work/tokens.csv" >"$work/out" 2>"$work/err" &
server=$!
until_says '^ready: '
url=$(sed -n 's/^ready: //p' "$work/out")
export KUBECONFIG=$work/kubeconfig

# --- discovery -------------------------------------------------------------------------------------------------
expect "version" 'Server Version: v1\.36' k version
expect "api-versions" '^apps/v1$' k api-versions
expect "api-resources" '^deployments +deploy +apps/v1 +true +Deployment' k api-resources
expect "api-resources by group" '^cronjobs' k api-resources --api-group=batch
expect "cluster-info" 'control plane.* is running at' k cluster-info
expect "whoami" 'system:masters' k auth whoami
expect "can-i" '^yes' k auth can-i create deployments
expect "explain" 'FIELDS|FIELD:' k explain deployment.spec.template.spec.containers
expect "explain recursively" 'matchLabels' k explain deployment.spec.selector --recursive
expect "namespaces" 'kube-system +Active' k get namespaces
expect "the kubernetes service" 'kubernetes +ClusterIP +10\.' k get service kubernetes
expect "raw" '"major"' k get --raw /version
expect "readyz" '^ok' k get --raw /readyz

# --- authorization --------------------------------------------------------------------------------------------------
as() { timeout 30 curl -sk -o /dev/null -w '%{http_code}' "$@"; }
expect "an anonymous client may get the version" '^200$' as "$url/version"
expect "an anonymous client may not list pods" '^403$' as "$url/api/v1/pods"
expect "a wrong token" '^401$' as -H 'Authorization: Bearer wrong' "$url/api/v1/pods"
expect "a token without a role" '^403$' as -H 'Authorization: Bearer secret-token' "$url/api/v1/pods"
expect "a role for alice" 'created' k create clusterrolebinding alice --clusterrole=view --user=alice
expect "alice may list pods" '^200$' as -H 'Authorization: Bearer secret-token' "$url/api/v1/namespaces/default/pods"
expect "alice may not list secrets" '^403$' as -H 'Authorization: Bearer secret-token' "$url/api/v1/namespaces/default/secrets"
refuse "impersonation" 'cannot list resource "secrets"' k get secrets --as=alice

# --- create --------------------------------------------------------------------------------------------------------
expect "create namespace" 'namespace/shop created' k create namespace shop
expect "create configmap" 'configmap/settings created' k create configmap settings --from-literal=color=blue
expect "create secret" 'secret/password created' k create secret generic password --from-literal=word=xyzzy
expect "create serviceaccount" 'serviceaccount/robot created' k create serviceaccount robot
expect "create service" 'service/web created' k create service clusterip web --tcp=80:8080
expect "create deployment" 'deployment.apps/web created' k create deployment web --image=nginx:1.29 --replicas=2
expect "create role" 'role.rbac.authorization.k8s.io/reader created' k create role reader --verb=get,list --resource=pods
expect "create job" 'job.batch/once created' k create job once --image=busybox -- true
expect "create cronjob" 'cronjob.batch/daily created' k create cronjob daily --image=busybox --schedule='0 0 * * *' -- true
expect "create quota" 'resourcequota/small created' k create quota small --hard=pods=100 -n shop
refuse "create again" 'AlreadyExists|already exists' k create namespace shop
refuse "unknown field" 'unknown field "spec.replica"' kf '{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replica: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}' create
refuse "invalid object" 'selector.*does not match template|is invalid' kf '{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}}}' create

# --- get -----------------------------------------------------------------------------------------------------------
expect "the deployment comes up" 'condition met' k wait --for=condition=Available deployment/web --timeout=30s
expect "rollout status" 'successfully rolled out' k rollout status deployment/web --timeout=30s
expect "get as a table" '^web +2/2 +2 +2 ' k get deployments
expect "get pods" 'web-[a-z0-9]+-[a-z0-9]+ +1/1 +Running +0' k get pods
expect "get wide" '^web .* nginx +nginx:1.29 +app=web' k get deployment web -o wide
expect "get yaml" '^  replicas: 2$' k get deployment web -o yaml
expect "get json" '"kind": "Deployment"' k get deployment web -o json
expect "get name" '^deployment.apps/web$' k get deployment web -o name
expect "get jsonpath" '^nginx:1.29$' k get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}'
expect "get custom-columns" '^web +2$' k get deployments -o custom-columns=NAME:.metadata.name,REPLICAS:.spec.replicas
expect "get several kinds" 'replicaset.apps/web-' k get deployment,replicaset,pod
expect "get all" 'service/web' k get all
expect "get by label" 'web-' k get pods -l app=web
expect "get by absent label" 'No resources found' k get pods -l 'app notin (web),!job-name,batch.kubernetes.io/job-name!=once'
expect "get by field" 'web-' k get pods --field-selector=status.phase=Running
expect "get sorted" 'kube-system' k get namespaces --sort-by=.metadata.name
expect "get everywhere" '^default +web-' k get pods -A
expect "get nodes" ' Ready ' k get nodes
expect "get labels" 'app=web' k get pods --show-labels
expect "get events" 'Scheduled|SuccessfulCreate|ScalingReplicaSet' k get events
expect "describe" 'Replicas: +2 desired' k describe deployment web
refuse "get what is not there" 'NotFound' k get deployment nothing
refuse "get an unknown kind" "the server doesn't have a resource type" k get nonsense
k get configmaps -w --no-headers >"$work/watch" 2>&1 &
watching=$!
sleep 1
expect "create while watching" 'created' k create configmap seen --from-literal=a=b
for _ in $(seq 100); do grep -q '^seen' "$work/watch" && break; sleep 0.05; done
kill $watching 2>/dev/null
expect "get -w" '^seen +1 ' cat "$work/watch"

# --- change --------------------------------------------------------------------------------------------------------
expect "label" 'labeled' k label configmap settings tier=front
expect "annotate" 'annotated' k annotate configmap settings note=hello
expect "they are there" 'front hello' k get configmap settings -o 'jsonpath={.metadata.labels.tier} {.metadata.annotations.note}'
expect "unlabel" 'unlabeled' k label configmap settings tier-
expect "replace" 'replaced' kf '{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: green}}' replace
expect "it is replaced" '^green$' k get configmap settings -o 'jsonpath={.data.color}'
expect "edit" 'edited' edit s/green/red/ configmap settings
expect "it is edited" '^red$' k get configmap settings -o 'jsonpath={.data.color}'
expect "merge patch" 'patched' k patch configmap settings --type=merge -p '{"data":{"size":"9"}}'
expect "JSON patch" 'patched' k patch configmap settings --type=json -p '[{"op":"add","path":"/data/shape","value":"round"}]'
expect "strategic patch" 'patched' k patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","env":[{"name":"A","value":"1"}]}]}}}}'
expect "both are there" '^9 round$' k get configmap settings -o 'jsonpath={.data.size} {.data.shape}'
expect "set image" 'image updated' k set image deployment/web nginx=nginx:1.30
expect "rollout of the image" 'successfully rolled out' k rollout status deployment/web --timeout=30s
expect "rollout history" 'REVISION' k rollout history deployment/web
expect "rollout undo" 'rolled back' k rollout undo deployment/web
expect "rollout restart" 'restarted' k rollout restart deployment/web
expect "scale" 'scaled' k scale deployment web --replicas=3
expect "scaled" 'condition met' k wait --for=jsonpath='{.status.readyReplicas}'=3 deployment/web --timeout=30s
expect "scale with a precondition" 'scaled' k scale deployment web --replicas=1 --current-replicas=3

# --- apply ---------------------------------------------------------------------------------------------------------
app() { printf '{apiVersion: apps/v1, kind: Deployment, metadata: {name: app, labels: {app: app}}, spec: {replicas: 1, selector: {matchLabels: {app: app}}, template: {metadata: {labels: {app: app}}, spec: {containers: [{name: main, image: "%s"}]}}}}' "$1"; }
expect "apply" 'deployment.apps/app created' kf "$(app one:1)" apply
expect "apply again" 'deployment.apps/app unchanged' kf "$(app one:1)" apply
expect "apply a change" 'deployment.apps/app configured' kf "$(app one:2)" apply
refuse "diff" 'one:3' kf "$(app one:3)" diff
expect "diff of nothing" '^$' kf "$(app one:2)" diff
expect "apply server-side over client-side" 'serverside-applied' kf "$(app one:4)" apply --server-side
expect "apply server-side again" 'serverside-applied' kf "$(app one:4)" apply --server-side
refuse "apply as somebody else conflicts" 'conflict with "kubectl"' kf "$(app one:5)" apply --server-side --field-manager=other
expect "apply by force" 'serverside-applied' kf "$(app one:5)" apply --server-side --field-manager=other --force-conflicts
expect "the image follows" '^one:5$' k get deployment app -o 'jsonpath={.spec.template.spec.containers[0].image}'
expect "dry run" 'server dry run' kf "$(app one:6)" apply --dry-run=server --server-side --field-manager=other
expect "field managers are shown" 'manager: other' k get deployment app -o yaml --show-managed-fields

# --- custom resources ----------------------------------------------------------------------------------------------
crd='{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boats.example.com}, spec: {group: example.com, scope: Namespaced, names: {plural: boats, singular: boat, kind: Boat, shortNames: [bo]}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, additionalPrinterColumns: [{name: Length, type: integer, jsonPath: .spec.length}], schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [length], properties: {length: {type: integer, minimum: 1}, color: {type: string, default: white}}}, status: {type: object, properties: {afloat: {type: boolean}}}}}}}]}}'
boat() { printf '{apiVersion: example.com/v1, kind: Boat, metadata: {name: nina}, spec: {length: %s}}' "$1"; }
expect "apply a definition" 'created|serverside-applied' kf "$crd" apply
expect "it is established" 'condition met' k wait --for=condition=Established crd/boats.example.com --timeout=20s
expect "create a custom resource" 'boat.example.com/nina created' kf "$(boat 12)" apply
expect "by its short name, with its columns" '^nina +12' k get bo
expect "with defaults" '^white$' k get boat nina -o 'jsonpath={.spec.color}'
expect "explain a custom resource" 'length' k explain boat.spec
refuse "validate a custom resource" 'spec.length' kf "$(boat 0)" apply
expect "status of a custom resource" 'patched' k patch boat nina --subresource=status --type=merge -p '{"status":{"afloat":true}}'
expect "delete a custom resource" 'deleted' k delete boat nina
expect "delete a definition" 'deleted' k delete crd boats.example.com

# --- delete --------------------------------------------------------------------------------------------------------
expect "delete and wait" 'deleted' k delete configmap seen --wait
expect "delete a deployment" 'deleted' k delete deployment web
expect "its pods are deleted" '' k wait --for=delete pod -l app=web --timeout=60s
expect "delete by label" 'deleted' k delete deployment -l app=app
expect "delete a namespace" 'deleted' k delete namespace shop --timeout=60s
refuse "it is gone" 'NotFound' k get namespace shop

# --- end -----------------------------------------------------------------------------------------------------------
k get pods -w >/dev/null 2>&1 &
sleep 0.5
ends TERM
