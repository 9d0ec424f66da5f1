#!/usr/bin/env bash
# Drives kubectl against `evenkeel demo`: the operators follow the changes of a user.
# Usage: tests/demo.sh [path of the evenkeel binary]
set -uo pipefail
cd "$(dirname "$0")/.."
evenkeel=${1:-${CARGO_TARGET_DIR:-target}/debug/evenkeel}
. tests/checks.sh

"$evenkeel" demo --kubeconfig "$work/kubeconfig" >"$work/out" 2>"$work/err" &
server=$!
until_says '^try: '
export KUBECONFIG=$work/kubeconfig

# --- look ----------------------------------------------------------------------------------------------------------
expect "the line for kubectl" "^kubectl: export KUBECONFIG=$work/kubeconfig$" cat "$work/out"
expect "it converged" '^converged: every act ended as declared' cat "$work/out"
expect "get the samples" 'visitorsapp.example.com/guestbook' k get myresources,visitorsapps,databases
expect "my resource is ready" '^web +nginx:1.29 +Ready' k get myresources
expect "the site is ready" '^guestbook +2 +True' k get visitorsapps
expect "the database runs" '^orders .*Running' k get databases
expect "three nodes are ready" '^3$' sh -c "kubectl get nodes --no-headers | grep -c ' Ready '"
expect "describe" 'Image: +nginx:1.29' k describe myresource web
expect "describe conditions" 'AllTiersReady' k describe visitorsapp guestbook
expect "describe a database" 'Phase: +Running' k describe database orders

# --- edit ----------------------------------------------------------------------------------------------------------
expect "edit my resource" 'edited' edit 's/nginx:1.29/nginx:1.30/' myresource web
expect "its deployment follows" 'condition met' k wait --for=jsonpath='{.spec.template.spec.containers[0].image}'=nginx:1.30 deployment/web --timeout=30s
expect "it is ready again" 'condition met' k wait --for=jsonpath='{.status.phase}'=Ready myresource/web --timeout=30s
expect "edit the site" 'edited' edit 's/size: 2/size: 3/' visitorsapp guestbook
expect "its backend follows" 'condition met' k wait --for=jsonpath='{.status.readyReplicas}'=3 deployment/guestbook-backend --timeout=30s
expect "edit the database" 'edited' edit 's/replicas: 2/replicas: 3/' database orders
expect "its servers follow" 'condition met' k wait --for=jsonpath='{.status.readyReplicas}'=3 statefulset/orders --timeout=30s

expect "a webhook noted who asked for it" 'example.com/requested-by: +system:admin' k get database orders -o yaml
refuse "a webhook refuses less storage" 'spec.storage: Invalid value: "1Mi": cannot shrink from 2Gi' k patch databases.v1.example.com orders --type=merge -p '{"spec":{"storage":"1Mi"}}'
expect "the demo shows the refusal" 'refused +you +patch databases/orders' cat "$work/out"
expect "the demo shows the review" 'reviewed +kube-apiserver +by https://database.webhooks.test/validate-example-com-v1-database' cat "$work/out"

# --- disturb -------------------------------------------------------------------------------------------------------
uid=$(k get deployment web -o 'jsonpath={.metadata.uid}')
expect "delete a child" 'deleted' k delete deployment web
for _ in $(seq 100); do
  again=$(k get deployment web -o 'jsonpath={.metadata.uid}' 2>/dev/null)
  [ -n "$again" ] && [ "$again" != "$uid" ] && break
  sleep 0.1
done
expect "it is created again" 'condition met' k wait --for=condition=Available deployment/web --timeout=30s
[ "$again" != "$uid" ] || fail "it is created again" "the uid is still $uid"

# --- delete --------------------------------------------------------------------------------------------------------
expect "delete my resource" 'deleted' k delete myresource web
expect "delete the site" 'deleted' k delete visitorsapp guestbook
expect "delete the database" 'deleted' k delete database orders
expect "the deployments are deleted" '' k wait --for=delete deployment/web deployment/guestbook-mysql deployment/guestbook-frontend --timeout=30s
expect "the servers are deleted" '' k wait --for=delete statefulset/orders pod/orders-0 --timeout=30s
expect "nothing is left" 'No resources found' k get myresources,visitorsapps,databases,deployments,statefulsets
expect "the demo shows it" 'woken +visitors-app +for default/guestbook: ' cat "$work/out"

# --- end -----------------------------------------------------------------------------------------------------------
ends INT
