package creates

import (
	"context"
	"errors"
	"fmt"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/bench/await"
	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/bench/measure"
)

// Rounds gives each mode its turn in each round. self is the program whose `load` creates.
func (p *Plane) Rounds(ctx context.Context, progress io.Writer, self string, rounds int, plan load.Plan) ([]measure.Round, error) {
	return measure.Turns(ctx, progress, names, rounds, func(ctx context.Context, at int) (measure.Sample, error) {
		return p.turn(ctx, self, Mode(at), plan)
	})
}

func (p *Plane) turn(ctx context.Context, self string, mode Mode, plan load.Plan) (measure.Sample, error) {
	if err := p.enter(ctx, mode); err != nil {
		return measure.Sample{}, err
	}
	result, _, err := measure.Send(ctx, self, p.target, plan)
	if err != nil {
		return measure.Sample{}, err
	}
	if err := p.verify(ctx, mode, result.Sent); err != nil {
		return measure.Sample{}, err
	}
	err = p.admin.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	return measure.Sample{PerSecond: result.PerSecond(), P50: result.P50, P99: result.P99}, err
}

// enter puts the API server into a mode. Between two modes it is in none, so that the one before is not taken for this.
func (p *Plane) enter(ctx context.Context, mode Mode) error {
	for _, object := range p.installed {
		if err := p.admin.Delete(ctx, object); err != nil {
			return err
		}
	}
	p.installed = nil
	if err := await.Until(ctx, "creators are not recorded any more", p.unrecorded); err != nil || mode == Without {
		return err
	}
	for _, object := range mode.shipped() {
		p.webhooks.redirect(object)
		if err := p.admin.Create(ctx, object); err != nil {
			return err
		}
		p.installed = append(p.installed, object)
	}
	return await.Until(ctx, "creators are recorded by "+names[mode], p.recorded)
}

func (p *Plane) unrecorded(ctx context.Context) error {
	probe := crowded()
	if err := p.person.Create(ctx, probe, client.DryRunAll); err != nil {
		return err
	}
	return isRecorded(probe, false)
}

// recorded tells that the record is both written and asserted.
func (p *Plane) recorded(ctx context.Context) error {
	probe := job()
	if err := p.person.Create(ctx, probe, client.DryRunAll); err != nil {
		return err
	}
	if err := isRecorded(probe, true); err != nil {
		return err
	}
	err := p.person.Create(ctx, crowded(), client.DryRunAll)
	if apierrors.IsInvalid(err) {
		return nil
	}
	return errors.Join(errors.New("the record is not asserted"), err)
}

// isRecorded tells whether an object's creator is recorded as it should be.
func isRecorded(object client.Object, want bool) error {
	by, is := object.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy]
	if is != want || is && by != author {
		return fmt.Errorf("the record of %s says %q", object.GetName(), by)
	}
	return nil
}

// verify makes sure that all that was sent was created, and in the mode.
func (p *Plane) verify(ctx context.Context, mode Mode, sent int) error {
	created := &metav1.PartialObjectMetadataList{}
	created.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	if err := p.admin.List(ctx, created, client.InNamespace(namespace)); err != nil {
		return err
	}
	if len(created.Items) != sent {
		return fmt.Errorf("%d objects were sent, but there are %d", sent, len(created.Items))
	}
	for i := range created.Items {
		if err := isRecorded(&created.Items[i], mode != Without); err != nil {
			return err
		}
	}
	return nil
}
