package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// shippedRBAC is what a document of config/rbac or config/roles may be.
type shippedRBAC struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Rules             []rbacv1.PolicyRule
	RoleRef           rbacv1.RoleRef
	Subjects          []rbacv1.Subject
}

func shipped(t *testing.T, folder string) []shippedRBAC {
	t.Helper()
	files, err := filepath.Glob("../../config/" + folder + "/*.yaml")
	require.NoError(t, err)
	var found []shippedRBAC
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			var object shippedRBAC
			require.NoError(t, yaml.Unmarshal(document, &object))
			found = append(found, object)
		}
	}
	require.NotEmpty(t, found)
	return found
}

func TestS17_RolesForPeopleConveyNothingThatDecides(t *testing.T) {
	reserved := []string{"*", "decide", "purge", "mint", "request-for", "impersonate", "escalate", "bind"}
	for _, role := range shipped(t, "roles") {
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				assert.NotContainsf(t, reserved, verb, "%s", role.Name)
			}
			for _, resource := range rule.Resources {
				assert.NotContainsf(t, resource, "*", "%s", role.Name)
				assert.NotRegexpf(t, "/(status|finalizers|token)$", resource, "%s", role.Name)
				assert.NotEqualf(t, "secrets", resource, "%s", role.Name)
			}
			assert.NotContains(t, rule.APIGroups, "*", role.Name)
		}
	}
}

func TestS17_OnlyOurServiceAccountsAreBound(t *testing.T) {
	ours := []string{"countersign-controller", "countersign-proxy"}
	for _, folder := range []string{"rbac", "roles"} {
		for _, object := range shipped(t, folder) {
			for _, subject := range object.Subjects {
				assert.Equal(t, rbacv1.ServiceAccountKind, subject.Kind, object.Name)
				assert.Equal(t, systemNamespace, subject.Namespace, object.Name)
				assert.Contains(t, ours, subject.Name, object.Name)
			}
			for _, rule := range object.Rules {
				assert.NotContains(t, rule.Verbs, "*", object.Name)
				assert.NotContains(t, rule.Resources, "*", object.Name)
				if slices.Contains(rule.Resources, "secrets") && object.Kind == "ClusterRole" {
					assert.Equal(t, []string{"get"}, rule.Verbs, "%s: Secrets by name only", object.Name)
				}
			}
		}
	}
}

// may is one question to the API server's authorizer.
type may struct {
	verb, group, resource, subresource, name string
}

const (
	approvalGroup   = "approval.alaudadevops.io"
	connectorsGroup = "connectors.alaudadevops.io"
	authorityGroup  = "authority.alaudadevops.io"
)

func TestS17_EachRoleConveysWhatItSays(t *testing.T) {
	statuses := []may{
		{verb: "patch", group: approvalGroup, resource: "resourcecheckrequests", subresource: "status"},
		{verb: "update", group: approvalGroup, resource: "approvalrequests", subresource: "status"},
		{verb: "decide", group: authorityGroup, resource: "checks"},
		{verb: "request-for", group: authorityGroup, resource: "serviceaccounts"},
		{verb: "create", group: approvalGroup, resource: "approvalrequests"},
		{verb: "use", group: approvalGroup, resource: "checkkinds", name: "inspection.checks.example.com"},
	}
	writeRules := may{verb: "update", group: approvalGroup, resource: "resourcecheckrules"}
	ask := may{verb: "create", group: approvalGroup, resource: "resourcecheckrequests"}
	answer := may{verb: "create", group: approvalGroup, resource: "approvalresponses"}
	use := may{verb: "write", group: connectorsGroup, resource: "connectors", subresource: "apis", name: "harbor"}
	look := may{verb: "read", group: connectorsGroup, resource: "connectors", subresource: "apis", name: "harbor"}
	tests := map[string]struct{ can, cannot []may }{
		"countersign-viewer":    {[]may{{verb: "list", group: approvalGroup, resource: "resourcecheckrequests"}}, []may{ask, answer, use, look, writeRules}},
		"countersign-requester": {[]may{ask, {verb: "patch", group: approvalGroup, resource: "resourcecheckrequests"}}, []may{answer, use, look, writeRules}},
		"countersign-approver":  {[]may{answer}, []may{ask, use, writeRules, {verb: "update", group: approvalGroup, resource: "approvalresponses"}}},
		"countersign-owner": {[]may{writeRules,
			{verb: "revoke", group: approvalGroup, resource: "resourcecheckrules"},
			{verb: "explain", group: connectorsGroup, resource: "connectors"},
			{verb: "use", group: approvalGroup, resource: "checkkinds", name: "approvalrequest.approval.alaudadevops.io"},
		}, []may{use, ask}},
		"countersign-connector-user":   {[]may{use, look}, []may{writeRules, ask}},
		"countersign-connector-reader": {[]may{look}, []may{use}},
		"countersign-explain":          {[]may{{verb: "explain", group: connectorsGroup, resource: "connectors"}}, []may{use, look, ask}},
		// What the labels aggregate.
		"view":  {[]may{{verb: "get", group: approvalGroup, resource: "approvalrequests"}}, []may{ask, answer, use, look, writeRules}},
		"edit":  {[]may{ask}, []may{answer, use, look, writeRules}},
		"admin": {[]may{ask}, []may{answer, use, look, writeRules}},
	}
	for role, tc := range tests {
		t.Run(role, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			user := "has-" + role
			bindClusterRole(t, namespace, user, role)
			eventually(t, func(ctx context.Context) error { return expect(ctx, t, user, namespace, tc.can[0], true) })
			for _, question := range tc.can {
				assert.NoError(t, expect(t.Context(), t, user, namespace, question, true))
			}
			for _, question := range slices.Concat(tc.cannot, statuses) {
				assert.NoError(t, expect(t.Context(), t, user, namespace, question, false))
			}
		})
	}
}

func TestS17_TheComponentsHoldWhatTheyNeedAndNoMore(t *testing.T) {
	decide := may{verb: "decide", group: authorityGroup, resource: "checks"}
	purge := may{verb: "purge", group: authorityGroup, resource: "evidence"}
	mint := may{verb: "mint", group: authorityGroup, resource: "tokens"}
	secret := may{verb: "get", resource: "secrets", name: "harbor"}
	secrets := may{verb: "list", resource: "secrets"}
	pods := may{verb: "watch", resource: "pods"}
	runs := may{verb: "watch", group: "tekton.dev", resource: "pipelineruns"}
	weaken := may{verb: "update", group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies"}
	watch := may{verb: "watch", group: "admissionregistration.k8s.io", resource: "mutatingadmissionpolicybindings"}
	makePods := may{verb: "create", resource: "pods"}
	tests := map[string]struct{ can, cannot []may }{
		controllerUser: {[]may{decide, purge, secret, pods, runs, watch,
			{verb: "create", group: "openshift-pipelines.org", resource: "approvaltasks"},
			{verb: "patch", group: "admissionregistration.k8s.io", resource: "validatingwebhookconfigurations", name: "countersign"},
		}, []may{mint, secrets, weaken, makePods,
			{verb: "patch", group: "admissionregistration.k8s.io", resource: "validatingwebhookconfigurations", name: "theirs"},
			// It keeps the rule by which authors are verified in its place, and has no other to write.
			{verb: "delete", group: approvalGroup, resource: "resourcecheckrules"},
			{verb: "use", group: approvalGroup, resource: "checkkinds", name: "approvalrequest.approval.alaudadevops.io"},
			{verb: "update", group: "appstudio.redhat.com", resource: "releaseplans"},
			{verb: "update", group: "tekton.dev", resource: "pipelineruns"},
			{verb: "create", group: approvalGroup, resource: "approvalresponses"},
		}},
		proxyUser: {[]may{secret, pods, runs, watch}, []may{decide, purge, mint, secrets, weaken, makePods,
			{verb: "patch", group: approvalGroup, resource: "resourcecheckrequests", subresource: "status"},
			{verb: "create", group: approvalGroup, resource: "resourcecheckrequests"},
		}},
	}
	for user, tc := range tests {
		t.Run(user, func(t *testing.T) {
			eventually(t, func(ctx context.Context) error { return expect(ctx, t, user, "default", pods, true) }) // aggregated
			for _, question := range tc.can {
				assert.NoError(t, expect(t.Context(), t, user, "", question, true))
			}
			for _, question := range tc.cannot {
				assert.NoError(t, expect(t.Context(), t, user, "default", question, false))
			}
		})
	}
}

func expect(ctx context.Context, t *testing.T, user, namespace string, question may, want bool) error {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: question.verb, Group: question.group,
			Resource: question.resource, Subresource: question.subresource, Name: question.name,
		},
	}}
	if err := as(t, cluster.Admin()).Create(ctx, review); err != nil {
		return err
	}
	if review.Status.Allowed != want {
		return fmt.Errorf("%s: allowed is %v for %+v", user, review.Status.Allowed, question)
	}
	return nil
}
