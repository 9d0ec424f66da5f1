// Package mirror is an operator on controller-runtime: every ConfigMap with the label `mirror` gets a Secret with the same
// entries.
package mirror

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Reconciler makes the Secret of a ConfigMap.
type Reconciler struct {
	client.Client
}

// Reconcile creates or updates the Secret of one ConfigMap, which owns it.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	config := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if config.Labels["mirror"] == "" || !config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: config.Name, Namespace: config.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		secret.Data = map[string][]byte{}
		for key, value := range config.Data {
			secret.Data[key] = []byte(value)
		}
		return controllerutil.SetControllerReference(config, secret, r.Scheme())
	})
	return ctrl.Result{}, err
}

// AddTo adds the controller to a manager.
func (r *Reconciler) AddTo(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(r)
}
