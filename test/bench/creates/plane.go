package creates

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/env"
)

const (
	// author is the person who creates, and namespace where.
	author    = "developer@example.com"
	namespace = "creates"

	startTimeout  = 2 * time.Minute
	headerTimeout = 10 * time.Second
)

// Plane is an API server in one of the modes.
type Plane struct {
	cluster       *env.Cluster
	dir           string
	admin, person client.Client
	target        load.Target
	webhooks      server
	installed     []client.Object

	serving errgroup.Group
	stop    context.CancelFunc
}

// Open starts an API server with the binaries of the repository, in no mode yet, and the webhooks in this process. The
// context bounds the start only.
func Open(ctx context.Context, root string) (*Plane, error) {
	dir, err := os.MkdirTemp("", "creates-")
	if err != nil {
		return nil, err
	}
	p := &Plane{dir: dir}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.open(ctx, root); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Plane) open(ctx context.Context, root string) (err error) {
	p.cluster, err = env.Start(ctx, env.WithBinaries(filepath.Join(root, "bin")), env.WithControllers("none"),
		// One at a time would make the clearing after a turn longer than the turn.
		env.WithAPIServerArgs("--delete-collection-workers=8"))
	if err != nil {
		return err
	}
	if p.admin, err = client.New(p.cluster.Admin(), client.Options{}); err != nil {
		return err
	}
	for _, prepare := range []func(context.Context) error{p.letCreate, p.aim, p.serve} {
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close ends everything.
func (p *Plane) Close() error {
	var err error
	if p.cluster != nil {
		err = p.cluster.Stop()
	}
	if p.stop != nil {
		p.stop()
	}
	return errors.Join(err, p.serving.Wait(), os.RemoveAll(p.dir))
}

// letCreate gives the person the right to create.
func (p *Plane) letCreate(ctx context.Context) error {
	name := metav1.ObjectMeta{Namespace: namespace, Name: "creator"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"create"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: author}},
		},
	} {
		if err := p.admin.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
