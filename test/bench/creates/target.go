package creates

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/test/bench/load"
)

// job is one that does nothing, of a kind whose creators are recorded.
func job() *batchv1.Job {
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "created-"},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "registry.example.com/main"}},
		}}},
	}
}

// manyOwners is one owner more than whoever asserts the record lets pass.
const manyOwners = 101

// crowded is a Job that is refused where the record is asserted.
func crowded() *batchv1.Job {
	j := job()
	for i := range manyOwners {
		j.OwnerReferences = append(j.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: "any", UID: types.UID(fmt.Sprint(i)),
		})
	}
	return j
}

// aim prepares what the load sends and as whom.
func (p *Plane) aim(context.Context) error {
	config, err := p.cluster.Person(author)
	if err != nil {
		return err
	}
	if p.person, err = client.New(config, client.Options{Mapper: p.admin.RESTMapper()}); err != nil {
		return err
	}
	body, err := json.Marshal(job())
	if err != nil {
		return err
	}
	p.target = load.Target{
		URL: config.Host + "/apis/batch/v1/namespaces/" + namespace + "/jobs", Method: http.MethodPost,
		TokenFile: p.file("token"), CAFile: p.file("ca.crt"), SendFile: p.file("job.json"),
		Status: http.StatusCreated, BodyBytes: load.AnyLength,
	}
	for file, content := range map[string][]byte{
		p.target.TokenFile: []byte(config.BearerToken), p.target.CAFile: p.cluster.CA().CertPEM(), p.target.SendFile: body,
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plane) file(name string) string { return filepath.Join(p.dir, name) }
