// Package script compiles and runs the expressions of ScriptChecks.
//
// An expression is CEL with the libraries that CRD validation has. It sees the variables named here and nothing else, is
// bounded in cost, and answers true, false or "not yet".
package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Variables of an expression.
const (
	// Request is the question as it was put to the check. Its reason and the run's parameters are the requester's words.
	Request = "request"
	// Object is the protected object as it is now.
	Object = "object"
	// Resource is the run that the approval is for, as it is now, or null. Its labels and annotations are whatever those
	// who may edit the run say.
	Resource = "resource"
	// Rule is the rule that asks, as it stood then.
	Rule = "rule"
	// Now is the time of the evaluation.
	Now = "now"
)

// NotYet is the text that waits.
const NotYet = "not yet"

const (
	// costLimit bounds one evaluation in CEL's units; it is the limit that the API server has for one expression.
	costLimit = 1_000_000
	// interruptEvery is how many loop steps pass between looks at the context.
	interruptEvery = 100
)

// Answer is what an expression says.
type Answer string

// Answers of an expression.
const (
	Approve Answer = "approve"
	Reject  Answer = "reject"
	Wait    Answer = "wait"
)

// Inputs are the values of the variables. Those that the program does not use may be left out.
type Inputs struct {
	Request, Object, Rule map[string]any
	// Resource is nil where there is none.
	Resource map[string]any
	Now      time.Time
}

// Program is a compiled expression. It is immutable.
type Program struct {
	program cel.Program
	uses    map[string]bool
}

var buildEnv = sync.OnceValues(func() (*cel.Env, error) {
	version := environment.DefaultCompatibilityVersion()
	set, err := environment.MustBaseEnvSet(version).Extend(environment.VersionedOptions{
		IntroducedVersion: version,
		EnvOptions: []cel.EnvOption{
			cel.Variable(Request, cel.DynType), cel.Variable(Object, cel.DynType), cel.Variable(Resource, cel.DynType),
			cel.Variable(Rule, cel.DynType), cel.Variable(Now, cel.TimestampType),
		},
	})
	if err != nil {
		return nil, err
	}
	return set.StoredExpressionsEnv(), nil
})

// Compile reads an expression. The error is for who wrote it.
func Compile(expression string) (*Program, error) {
	env, err := buildEnv()
	if err != nil {
		return nil, fmt.Errorf("the CEL environment cannot be built: %w", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("the expression does not compile: %w%s", issues.Err(), hint(issues.Err()))
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.StringType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the expression yields %s, but must yield true, false or %q", out, NotYet)
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, fmt.Errorf("the expression cannot be run: %w", err)
	}
	return &Program{program: program, uses: used(ast)}, nil
}

// hint helps with what every author tries first: CEL wants both branches of a condition to be of one type.
func hint(err error) string {
	if strings.Contains(err.Error(), "'_?_:_'") {
		return fmt.Sprintf("\nbeside true or false, write dyn(%q)", NotYet)
	}
	return ""
}

func used(ast *cel.Ast) map[string]bool {
	names := map[string]bool{}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		if reference.Name != "" {
			names[reference.Name] = true
		}
	}
	return names
}

// Uses tells whether the expression names the variable.
func (p *Program) Uses(variable string) bool { return p.uses[variable] }

// Run evaluates the expression. An error says what went wrong in the expression's own words; it may be gone with other
// inputs.
func (p *Program) Run(ctx context.Context, in *Inputs) (Answer, error) {
	out, _, err := p.program.ContextEval(ctx, map[string]any{
		Request: in.Request, Object: in.Object, Rule: in.Rule, Resource: orNull(in.Resource), Now: in.Now,
	})
	if err != nil {
		return "", fmt.Errorf("the expression failed: %w", err)
	}
	return answer(out)
}

// orNull keeps an absent resource from being an empty one.
func orNull(resource map[string]any) any {
	if resource == nil {
		return nil
	}
	return resource
}

func answer(out ref.Val) (Answer, error) {
	switch value := out.(type) {
	case types.Bool:
		if value {
			return Approve, nil
		}
		return Reject, nil
	case types.String:
		if value == NotYet {
			return Wait, nil
		}
	}
	return "", errors.New(`the expression yielded something else than true, false or "` + NotYet + `"`)
}
