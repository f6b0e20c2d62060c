package checks

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// stateCostLimit bounds one evaluation, in CEL cost units. Reading a state looks at a handful of fields; the limit
// stops an expression that walks a large object once per event.
const stateCostLimit = 100_000

// stateReader reads the answer of a kind that has no status.state of ours.
type stateReader struct {
	program cel.Program
}

func compileState(reader *approvalv1alpha1.StateReader) (*stateReader, error) {
	if reader == nil {
		return nil, nil
	}
	env, err := stateEnvironment()
	if err != nil {
		return nil, fmt.Errorf("the CEL environment cannot be built: %w", err)
	}
	ast, issues := env.Compile(reader.CEL)
	if issues.Err() != nil {
		return nil, fmt.Errorf("spec.state.cel does not compile: %w", issues.Err())
	}
	if out := ast.OutputType(); !out.IsExactType(cel.StringType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("spec.state.cel yields %s; it must yield the text pending, approved, rejected, error or cancelled", out)
	}
	program, err := env.Program(ast, cel.CostLimit(stateCostLimit))
	if err != nil {
		return nil, fmt.Errorf("spec.state.cel cannot be run: %w", err)
	}
	return &stateReader{program: program}, nil
}

// stateEnvironment is what CRD validation offers, so that authors need to learn nothing new.
func stateEnvironment() (*cel.Env, error) {
	version := environment.DefaultCompatibilityVersion()
	set, err := environment.MustBaseEnvSet(version).Extend(environment.VersionedOptions{
		IntroducedVersion: version,
		EnvOptions:        []cel.EnvOption{cel.Variable("self", cel.DynType)},
	})
	if err != nil {
		return nil, err
	}
	return set.StoredExpressionsEnv(), nil
}

func (r *stateReader) read(self map[string]any) (duckv1alpha1.CheckState, error) {
	out, _, err := r.program.Eval(map[string]any{"self": self})
	if err != nil {
		return "", fmt.Errorf("the CheckKind's spec.state.cel failed: %w", err)
	}
	text, ok := out.(types.String)
	if !ok {
		return "", errors.New("the CheckKind's spec.state.cel yielded no text")
	}
	return duckv1alpha1.CheckState(text), nil
}
