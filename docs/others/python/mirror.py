"""An operator on kopf: every ConfigMap with the label `mirror` gets a Secret with the same entries."""

import base64

import kopf
import kubernetes


def secret_of(name, data):
    """The Secret of a ConfigMap, which owns it: the garbage collector deletes it with the ConfigMap."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in (data or {}).items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    kopf.adopt(secret)
    return secret


@kopf.on.startup()
def connect(**_):
    kubernetes.config.load_kube_config()


@kopf.on.create("configmaps", labels={"mirror": "yes"})
@kopf.on.resume("configmaps", labels={"mirror": "yes"})
@kopf.on.update("configmaps", labels={"mirror": "yes"}, field="data")
def mirror(name, namespace, body, **_):
    secret = secret_of(name, body.get("data"))
    api = kubernetes.client.CoreV1Api()
    try:
        api.create_namespaced_secret(namespace, secret)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        api.patch_namespaced_secret(name, namespace, {"data": secret["data"]})
