package connector

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// finding is what an inspection came to. The zero finding is a connector without fault.
type finding struct {
	// reason is empty when the connector can be used.
	reason, message string
	// identity is who the tool says the connector is, once identified; until then the last known identity stands.
	identity   string
	identified bool
}

func fault(reason, message string) finding { return finding{reason: reason, message: message} }

func identified(name string) finding { return finding{identity: name, identified: true} }

func (f finding) ready() bool { return f.reason == "" }

func (f finding) recheck() time.Duration {
	if f.ready() {
		return recheckReady
	}
	return recheckNotReady
}

// nextStatus is the whole status that follows from a finding.
func (c *Controller) nextStatus(connector *connectorsv1alpha1.Connector, f finding) connectorsv1alpha1.ConnectorStatus {
	next := connectorsv1alpha1.ConnectorStatus{
		ObservedGeneration: connector.Generation,
		Proxy:              &connectorsv1alpha1.ConnectorProxy{HTTPAddress: &connectorsv1alpha1.ConnectorAddress{URL: c.url(connector)}},
		Identity:           connector.Status.Identity,
		Conditions:         append([]metav1.Condition(nil), connector.Status.Conditions...),
	}
	if f.identified {
		next.Identity = f.identity
	}
	condition := metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, ObservedGeneration: connector.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
		Status: metav1.ConditionTrue, Reason: approvalv1alpha1.ReasonReady, Message: "the connector can be used through the proxy",
	}
	if !f.ready() {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, f.reason, f.message
	}
	apimeta.SetStatusCondition(&next.Conditions, condition)
	return next
}

// url is where the connector is reached: by path from outside, by host name inside the cluster.
func (c *Controller) url(connector *connectorsv1alpha1.Connector) string {
	if c.options.ProxyURL == "" {
		return "https://" + serviceName(connector) + "." + connector.Namespace + ".svc.cluster.local"
	}
	return strings.TrimSuffix(c.options.ProxyURL, "/") + "/namespaces/" + connector.Namespace + "/connectors/" + connector.Name
}

// announce tells of a transition only.
func (c *Controller) announce(connector *connectorsv1alpha1.Connector, f finding) {
	before := apimeta.FindStatusCondition(connector.Status.Conditions, approvalv1alpha1.ConditionReady)
	reason, message, kind := approvalv1alpha1.ReasonReady, "the connector can be used through the proxy", corev1.EventTypeNormal
	if !f.ready() {
		reason, message, kind = f.reason, f.message, corev1.EventTypeWarning
	}
	if before == nil || before.Reason != reason {
		c.recorder.Eventf(connector, nil, kind, reason, "Inspect", "%s", announce.Note(message))
	}
}
