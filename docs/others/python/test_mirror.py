"""The operator on the cluster of KUBECONFIG, such as one that `evenkeel up` serves."""

import base64
import time
import unittest

import kubernetes
from kopf.testing import KopfRunner

PATIENCE_SECONDS = 60


def eventually(holds):
    """Waits until the function returns something that is true, and returns that."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


class Mirror(unittest.TestCase):
    def setUp(self):
        kubernetes.config.load_kube_config()
        self.api = kubernetes.client.CoreV1Api()
        name = f"mirror-{time.time_ns()}"
        namespace = {"metadata": {"name": name}}
        self.namespace = self.api.create_namespace(namespace).metadata.name
        self.addCleanup(self.api.delete_namespace, self.namespace)

    def secret(self):
        try:
            data = self.api.read_namespaced_secret("a", self.namespace).data or {}
        except kubernetes.client.ApiException as error:
            self.assertEqual(error.status, 404)
            return None
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def test_a_secret_follows_its_config_map(self):
        labels = {"mirror": "yes"}
        config = {"metadata": {"name": "a", "labels": labels}, "data": {"color": "blue"}}
        with KopfRunner(["run", "--namespace", self.namespace, "--standalone", "mirror.py"]) as runner:
            self.api.create_namespaced_config_map(self.namespace, config)
            self.assertEqual(eventually(self.secret), {"color": "blue"})
            self.api.patch_namespaced_config_map("a", self.namespace, {"data": {"color": "red"}})
            eventually(lambda: self.secret() == {"color": "red"})
            self.api.delete_namespaced_config_map("a", self.namespace)
            eventually(lambda: self.secret() is None)
        self.assertEqual(runner.exit_code, 0, runner.output)
        self.assertIsNone(runner.exception)


if __name__ == "__main__":
    unittest.main()
