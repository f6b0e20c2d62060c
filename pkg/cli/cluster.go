package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// cluster is the API server as the caller reaches it.
type cluster struct {
	client.WithWatch
	config *rest.Config
}

// scheme holds the kinds that the verbs read as Go types.
func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		approvalv1alpha1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(fmt.Sprintf("two Go types claim one kind: %v", err))
		}
	}
	return s
}

func dial(p *program) (*cluster, error) {
	config, err := p.flags.ToRESTConfig()
	if err != nil {
		return nil, kubeconfigError(err)
	}
	// The API server shares itself out (flow control); verbs that ask for much at once bound themselves.
	config.QPS = -1
	config.WarningHandlerWithContext = warnings{p.streams.ErrOut}
	mapper, err := p.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme(), Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &cluster{WithWatch: c, config: config}, nil
}

// resources are the kinds that the API server knows, each in its preferred version.
func resources(p *program) ([]*metav1.APIResourceList, error) {
	known, err := p.flags.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return known.ServerPreferredResources()
}

func kubeconfigError(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return fail(ExitError, "there is no kubeconfig: set KUBECONFIG or --kubeconfig")
	}
	return fail(ExitError, "the kubeconfig cannot be used: %s", sentence(err))
}

// warnings prints what the API server and admission warn of.
type warnings struct{ out io.Writer }

func (w warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	if code == 299 && text != "" {
		_, _ = fmt.Fprintln(w.out, "warning: "+show(text))
	}
}

// namespace is that of -n, else of the kubeconfig's context.
func (p *program) namespace() (string, error) {
	ns, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", kubeconfigError(err)
	}
	return ns, nil
}

// homeNamespace is that of the kubeconfig's context, whatever -n says.
func (p *program) homeNamespace() (string, error) {
	home := genericclioptions.ConfigFlags{KubeConfig: p.flags.KubeConfig, Context: p.flags.Context, ClusterName: p.flags.ClusterName}
	ns, _, err := home.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", kubeconfigError(err)
	}
	return ns, nil
}

// whoami is the caller as the API server sees him.
func (c *cluster) whoami(ctx context.Context) (approvalv1alpha1.Identity, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return approvalv1alpha1.Identity{}, err
	}
	user := review.Status.UserInfo
	if user.Username == "" {
		return approvalv1alpha1.Identity{}, errors.New("the API server does not say who you are: log in again")
	}
	me := approvalv1alpha1.Identity{Username: user.Username, UID: user.UID, Groups: user.Groups}
	if credential := user.Extra[approvalv1alpha1.ExtraCredentialID]; len(credential) > 0 {
		me.Extra = map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: approvalv1alpha1.ExtraValue(credential)}
	}
	return me, nil
}

// unreadable tells that the caller may not see something, or that it is not there: what is then left out of a
// description, and not reported.
func unreadable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
}
