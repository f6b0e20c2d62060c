package proxy

import (
	"context"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/proxy/stream"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// attempts is how often a request is judged anew because its connector changes meanwhile.
const attempts = 3

// judge classifies and decides. What was classified by a connector is only allowed as long as that is still the
// connector, because its address and its classes may have changed with it.
func (c *call) judge() *refusal {
	for range attempts {
		connector, known := c.gate.Connector(c.route.Namespace, c.route.Name)
		if known {
			c.connector = connector
		}
		operations, bad := classify(connector, operation.NewRequest(c.r.Method, c.route.Path, c.route.RawQuery, c.r.Header))
		c.operations = operations
		c.answer = c.decide(c.r.Context(), c.identity)
		if no := c.refused(bad); no != nil {
			return no
		}
		if now, ok := c.gate.Connector(c.route.Namespace, c.route.Name); ok && same(connector, now) {
			return nil
		}
	}
	return &refusal{reason: approvalv1alpha1.ReasonNotReady, message: "the connector is being changed; try again in a moment", retryAfter: retrySoon}
}

func (c *call) decide(ctx context.Context, who *token.Identity) gate.Answer {
	return c.gate.Decide(ctx, gate.Use{
		Identity: who, Namespace: c.route.Namespace, Name: c.route.Name, Operations: c.operations,
	})
}

// refused says no to what was denied, and to what cannot be classified; but the latter only to those who may know that
// the connector exists, because classes differ in what they refuse.
func (c *call) refused(bad error) *refusal {
	unknown := c.answer.Reason == approvalv1alpha1.ReasonConnectorUnknown
	switch {
	case bad != nil && !unknown:
		no := invalid(bad.Error())
		return &no
	case c.answer.Allow:
		return nil
	}
	no := refusal{reason: c.answer.Reason, message: c.answer.Message}
	switch c.answer.Reason {
	case approvalv1alpha1.ReasonOriginPending, approvalv1alpha1.ReasonNotReady:
		no.retryAfter = retrySoon
	}
	return &no
}

// classify judges a request to a connector that is not known, or that it cannot be judged by, as a write.
func classify(connector *gate.Connector, r operation.Request) ([]operation.Operation, error) {
	var classifier operation.Classifier
	if connector != nil {
		classifier = connector.Classifier
	}
	operations, err := classifier.Classify(r)
	if err != nil {
		return []operation.Operation{{Class: operation.Write, Method: r.Method, Path: r.Path}}, err
	}
	return operations, nil
}

func same(a, b *gate.Connector) bool {
	return a != nil && b != nil && a.UID == b.UID && a.Generation == b.Generation
}

// Judge implements stream.Subject: it decides anew about the operations that the request began with, from the token on.
func (c *call) Judge(ctx context.Context) stream.Verdict {
	who, err := c.tokens.Authenticate(ctx, c.bearer)
	if err != nil {
		no := unauthenticated(err)
		return stream.Verdict{Reason: no.reason, Message: no.message, Unknown: no.reason == approvalv1alpha1.ReasonNotReady}
	}
	if now, ok := c.gate.Connector(c.route.Namespace, c.route.Name); ok && !same(c.connector, now) {
		return stream.Verdict{Reason: approvalv1alpha1.ReasonObjectChanged, Message: "the connector was changed while the request was being served; send it again"}
	}
	answer := c.decide(ctx, who)
	return stream.Verdict{
		Allow: answer.Allow, Reason: answer.Reason, Message: answer.Message, Until: earliest(answer.Until, who.Expiry),
		Unknown: answer.Reason == approvalv1alpha1.ReasonNotReady || answer.Reason == approvalv1alpha1.ReasonOriginPending,
	}
}

// earliest takes a zero time for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
