package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
)

const (
	readyPoll      = 50 * time.Millisecond
	conditionReady = "Ready"
	// excerptLimit bounds what an error quotes of an answer.
	excerptLimit = 2048
)

// awaitReady waits until every connector and rule in prod is Ready in its present generation, and until runs that are
// made from now on count.
func (e *environment) awaitReady(ctx context.Context) error {
	scheme := runtime.NewScheme()
	utilruntime.Must(approvalv1alpha1.AddToScheme(scheme))
	utilruntime.Must(connectorsv1alpha1.AddToScheme(scheme))
	reader, err := client.New(e.cluster.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	var missing error
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		missing = errors.Join(notReady(ctx, reader), e.notBelieved(ctx))
		return missing == nil, nil
	})
	return errors.Join(err, missing)
}

// epochSettles is how long after the epoch an object must be made to count: creation times have whole seconds.
const epochSettles = time.Second

// notBelieved tells why the creators of objects that are made now would not be believed yet.
func (e *environment) notBelieved(ctx context.Context) error {
	epoch, err := e.cluster.Client().CoreV1().ConfigMaps(namespaceSystem).Get(ctx, guarded.EpochName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the controller has not seen the admission policies in force yet: %w", err)
	}
	since, err := time.Parse(time.RFC3339, epoch.Data["since"])
	if err != nil {
		return fmt.Errorf("the epoch in ConfigMap %s is no time: %w", guarded.EpochName, err)
	}
	if time.Now().Truncate(time.Second).Before(since.Add(epochSettles)) {
		return fmt.Errorf("creator records count from %s on", since)
	}
	return nil
}

func notReady(ctx context.Context, reader client.Reader) error {
	var connectors connectorsv1alpha1.ConnectorList
	var rules approvalv1alpha1.ResourceCheckRuleList
	for _, list := range []client.ObjectList{&connectors, &rules} {
		if err := reader.List(ctx, list, client.InNamespace(namespaceProd)); err != nil {
			return err
		}
	}
	var missing []error
	for i := range connectors.Items {
		c := &connectors.Items[i]
		missing = append(missing, readyCondition("connector "+c.Name, c.Generation, c.Status.Conditions))
	}
	for i := range rules.Items {
		r := &rules.Items[i]
		missing = append(missing, readyCondition("rule "+r.Name, r.Generation, r.Status.Conditions))
	}
	return errors.Join(missing...)
}

func readyCondition(what string, generation int64, conditions []metav1.Condition) error {
	condition := apimeta.FindStatusCondition(conditions, conditionReady)
	switch {
	case condition == nil || condition.ObservedGeneration != generation:
		return fmt.Errorf("no controller has looked at %s yet; see the controller's log", what)
	case condition.Status != metav1.ConditionTrue:
		return fmt.Errorf("%s is not ready (%s): %s", what, condition.Reason, condition.Message)
	}
	return nil
}

// whereabouts is the ConfigMap in which the command line finds the proxy.
func (e *environment) whereabouts() (string, error) {
	encoded, err := yaml.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespacePublic, Name: "countersign"},
		Data:       map[string]string{"proxyURL": e.at.proxyURL(), "ca": string(e.cluster.CA().CertPEM())},
	})
	return string(encoded), err
}

// excerpt quotes the beginning of an answer; what cannot be read is left out.
func excerpt(body io.Reader) string {
	content, _ := io.ReadAll(io.LimitReader(body, excerptLimit))
	if text := strings.TrimSpace(string(content)); text != "" {
		return ": " + text
	}
	return ""
}
