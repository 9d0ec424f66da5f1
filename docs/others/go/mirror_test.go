package mirror

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// With USE_EXISTING_CLUSTER=true, envtest starts no kube-apiserver and no etcd: it uses the cluster of KUBECONFIG.
func TestASecretFollowsItsConfigMap(t *testing.T) {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Reconciler{Client: manager.GetClient()}).AddTo(manager); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() {
		if err := manager.Start(ctx); err != nil {
			t.Error(err)
		}
	}()

	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "mirror-"}}
	must(t, api.Create(ctx, namespace))
	meta := metav1.ObjectMeta{Name: "a", Namespace: namespace.Name, Labels: map[string]string{"mirror": "yes"}}
	mine := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": "blue"}}
	must(t, api.Create(ctx, mine))
	secret := &corev1.Secret{}
	color := func() string {
		err := api.Get(ctx, client.ObjectKeyFromObject(mine), secret)
		if apierrors.IsNotFound(err) {
			return "none"
		}
		must(t, err)
		return string(secret.Data["color"])
	}
	eventually(t, "the secret is created", func() bool { return color() == "blue" })
	mine.Data["color"] = "red"
	must(t, api.Update(ctx, mine))
	eventually(t, "the secret follows", func() bool { return color() == "red" })
	must(t, api.Delete(ctx, secret))
	eventually(t, "drift is corrected", func() bool { return color() == "red" })
	must(t, api.Delete(ctx, mine))
	eventually(t, "the garbage collector deletes it", func() bool { return color() == "none" })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it did not happen in time: %s", what)
}
