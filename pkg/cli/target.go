package cli

import (
	"context"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// target reads KIND/NAME. KIND is any name that the API server knows the kind by: connector, conn, or with its group.
func (c *cluster) target(word, namespace string) (*approvalv1alpha1.ObjectReference, error) {
	kind, name, ok := strings.Cut(word, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return nil, usage("%s is no KIND/NAME: write for example connector/prod-harbor", words(word))
	}
	gvk, err := kindFor(c.RESTMapper(), strings.ToLower(kind))
	if err != nil {
		return nil, err
	}
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != apimeta.RESTScopeNameNamespace {
		return nil, usage("%s belongs to no namespace, so it cannot be asked for", words(word))
	}
	return &approvalv1alpha1.ObjectReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: namespace, Name: name}, nil
}

func kindFor(mapper apimeta.RESTMapper, word string) (schema.GroupVersionKind, error) {
	full, short := schema.ParseResourceArg(word)
	if full != nil {
		if gvk, err := mapper.KindFor(*full); err == nil {
			return gvk, nil
		}
	}
	return mapper.KindFor(short.WithVersion(""))
}

// splitName reads NAME or NAMESPACE/NAME, the form in which refusals name requests.
func splitName(word, namespace string) (ns, name string, err error) {
	before, after, both := strings.Cut(word, "/")
	switch {
	case !both && before != "":
		return namespace, before, nil
	case both && before != "" && after != "" && !strings.Contains(after, "/"):
		return before, after, nil
	}
	return "", "", usage("%s is no name: write NAME or NAMESPACE/NAME", words(word))
}

// where is the flags of verbs that act on requests: --in, else -n, else the context's namespace.
type where struct {
	in  string
	all bool
}

func (w *where) namespace(p *program) (string, error) {
	if w.in != "" {
		return w.in, nil
	}
	return p.namespace()
}

// request reads a request by its name.
func (c *cluster) request(ctx context.Context, namespace, name string) (*approvalv1alpha1.ResourceCheckRequest, error) {
	req := &approvalv1alpha1.ResourceCheckRequest{}
	if err := c.Get(ctx, keyOf(namespace, name), req); err != nil {
		return nil, err
	}
	return req, nil
}
