package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/test/bench/await"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/issuer"
)

// Mint makes another token of the developer, with a jti of its own.
func (w *World) Mint() (token, jti string, err error) {
	from, err := env.OpenIssuer(w.dir)
	if err != nil {
		return "", "", err
	}
	email := Developer + "@example.com"
	token, err = from.Mint(issuer.Claims{
		Subject: env.Subject(email), Email: email, Groups: []string{"developers"}, Audience: []string{env.ClientID},
	})
	if err != nil {
		return "", "", err
	}
	claims := jwt.RegisteredClaims{}
	_, _, err = jwt.NewParser().ParseUnverified(token, &claims)
	return token, claims.ID, err
}

// account is the service account that runs of the team use.
const account = "pipeline"

// RunJob makes a Job as the developer and returns the pod that the job controller makes of it.
func (w *World) RunJob(ctx context.Context, name string) (*corev1.Pod, error) {
	if err := w.recorded(ctx); err != nil {
		return nil, err
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: Team, Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "main", Image: "main"}},
		}}},
	}
	if err := w.As(Developer).Create(ctx, job); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	err := await.Until(ctx, "the job "+name+" gets its pod", func(ctx context.Context) error {
		err := w.As(Admin).List(ctx, &pods, client.InNamespace(Team), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("it has none yet")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &pods.Items[0], nil
}

// ProxyTokenFile is a file with what a kubelet would project into the pod: a token for the proxy, bound to the pod.
func (w *World) ProxyTokenFile(ctx context.Context, pod *corev1.Pod) (string, error) {
	review := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:         []string{w.values["PROXY_AUDIENCE"]},
		ExpirationSeconds: ptr.To(int64(3600)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := w.As(Admin).SubResource("token").Create(ctx, owner, review); err != nil {
		return "", fmt.Errorf("the pod %s gets no token: %w", pod.Name, err)
	}
	file := filepath.Join(w.dir, "tokens", pod.Name)
	return file, os.WriteFile(file, []byte(review.Status.Token), 0o600)
}
