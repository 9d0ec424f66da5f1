// Serves a validating webhook of ConfigMaps by controller-runtime, for the benchmark `reviews`.
//
// Usage: server FOLDER
//
// FOLDER holds tls.crt and tls.key. Prints the address when the server listens, and runs until it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// check makes the same decision as the function of the same name in the Rust half of the benchmark.
type check struct{}

func decide(object *corev1.ConfigMap) (admission.Warnings, error) {
	if object.Data == nil {
		return nil, errors.New("no data")
	}
	return nil, nil
}

func (check) ValidateCreate(_ context.Context, object *corev1.ConfigMap) (admission.Warnings, error) {
	return decide(object)
}

func (check) ValidateUpdate(_ context.Context, _, object *corev1.ConfigMap) (admission.Warnings, error) {
	return decide(object)
}

func (check) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

func run(folder string) error {
	ctrl.SetLogger(zap.New())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// The server binds its port itself: a free one is found here.
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: folder})
	server.Register("/validate--v1-configmap", admission.WithValidator(scheme, check{}))
	go func() {
		for server.StartedChecker()(nil) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Printf("127.0.0.1:%d\n", port)
	}()
	return server.Start(context.Background())
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: server FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
