package connector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/login"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// inspectIdentity finds out as whom the tool knows the connector. That name matters: whatever it creates was
// created by nobody in particular.
func (c *Controller) inspectIdentity(ctx context.Context, connector *connectorsv1alpha1.Connector, credential *login.Credential, ca []byte) finding {
	if connector.Spec.ConnectorClassName != operation.Kubernetes {
		username, _, _ := credential.Basic()
		return identified(username)
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	cluster, err := kubernetes.NewForConfig(c.loginConfig(connector, credential, ca))
	if err != nil {
		return fault(approvalv1alpha1.ReasonInvalidSpec, "address or certificate cannot be used for a Kubernetes client; check spec.address")
	}
	review, err := cluster.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return finding{} // a tool that does not answer now is no fault of the connector, and its identity stays as it was
	}
	who := review.Status.UserInfo
	if reach := c.reach(ctx, cluster, who); reach != "" {
		return finding{reason: approvalv1alpha1.ReasonCredentialReachesGuards, message: reach, identity: who.Username, identified: true}
	}
	return identified(who.Username)
}

// reach says what the identity may do that would let it around the gate, if the tool is this very cluster. It
// is a lint: rights can be given a moment later.
func (c *Controller) reach(ctx context.Context, cluster kubernetes.Interface, who authenticationv1.UserInfo) string {
	if !c.isOwnAccount(ctx, who) {
		return ""
	}
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return ""
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		review, err := cluster.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
		if err != nil {
			continue
		}
		for _, rule := range review.Status.ResourceRules {
			if what := leadsAround(rule, namespaces[namespace]); what != "" {
				return fmt.Sprintf("the identity %q behind the connector's credentials may %s in namespace %s, which leads around the gate; take that right away", who.Username, what, namespace)
			}
		}
	}
	return ""
}

// isOwnAccount tells whether the identity is a service account of this cluster: by UID, because names repeat.
func (c *Controller) isOwnAccount(ctx context.Context, who authenticationv1.UserInfo) bool {
	parts := strings.Split(strings.TrimPrefix(who.Username, "system:serviceaccount:"), ":")
	if len(parts) != 2 || !strings.HasPrefix(who.Username, "system:serviceaccount:") {
		return false
	}
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := c.reader.Get(ctx, client.ObjectKey{Namespace: parts[0], Name: parts[1]}, account)
	return err == nil && string(account.UID) == who.UID
}

// namespaces are ours and those of connectors; true marks those in which Secrets of ours or of connectors lie.
func (c *Controller) namespaces(ctx context.Context) (map[string]bool, error) {
	var all connectorsv1alpha1.ConnectorList
	if err := c.client.List(ctx, &all); err != nil {
		return nil, err
	}
	namespaces := map[string]bool{c.options.Namespace: true}
	for i := range all.Items {
		connector := &all.Items[i]
		namespaces[connector.Namespace] = namespaces[connector.Namespace] || len(secretRefs(connector)) > 0
	}
	return namespaces, nil
}

// guards are the rights that lead around the gate.
var guards = []struct {
	group, resource string
	verbs           []string
	what            string
}{
	{"", "secrets", []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}, "reach secrets"},
	{"", "pods", []string{"create"}, "create pods"},
	{"", "serviceaccounts/token", []string{"create"}, "create serviceaccounts/token"},
}

// leadsAround names what of a rule leads around the gate; empty if nothing does.
func leadsAround(rule authorizationv1.ResourceRule, secretsLieHere bool) string {
	for _, group := range []string{approvalv1alpha1.GroupVersion.Group, connectorsv1alpha1.GroupVersion.Group, approvalv1alpha1.AuthorityGroup} {
		if matches(rule.APIGroups, group) && len(rule.Resources) > 0 && len(rule.Verbs) > 0 {
			return strings.Join(rule.Verbs, ", ") + " " + strings.Join(rule.Resources, ", ") + " of " + group
		}
	}
	for _, guard := range guards {
		if secretsLieHere && matches(rule.APIGroups, guard.group) && matches(rule.Resources, guard.resource) &&
			slices.ContainsFunc(guard.verbs, func(verb string) bool { return matches(rule.Verbs, verb) }) {
			return guard.what
		}
	}
	return ""
}

func matches(list []string, value string) bool {
	_, subresource, _ := strings.Cut(value, "/")
	return slices.Contains(list, value) || slices.Contains(list, "*") ||
		subresource != "" && slices.Contains(list, "*/"+subresource)
}
