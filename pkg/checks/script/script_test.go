package script

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func inputs() *Inputs {
	return &Inputs{
		Request:  map[string]any{"requestedBy": map[string]any{"username": "dev1"}, "reason": "promote 1.4.2"},
		Object:   map[string]any{"metadata": map[string]any{"labels": map[string]any{"tier": "gold"}}, "spec": map[string]any{"replicas": int64(3)}},
		Rule:     map[string]any{"name": "push", "generation": int64(2)},
		Resource: map[string]any{"metadata": map[string]any{"name": "run-1"}, "status": map[string]any{}},
		Now:      time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
	}
}

func TestRun(t *testing.T) {
	tests := map[string]struct {
		expression string
		change     func(*Inputs)
		want       Answer
		wantErr    string
	}{
		"true":                {expression: "true", want: Approve},
		"false":               {expression: "false", want: Reject},
		"not yet":             {expression: `"not yet"`, want: Wait},
		"request":             {expression: `request.requestedBy.username == "dev1"`, want: Approve},
		"object":              {expression: `object.spec.replicas > 2 && object.metadata.labels.tier == "gold"`, want: Approve},
		"rule":                {expression: `rule.generation == 1`, want: Reject},
		"resource":            {expression: `has(resource.status.verdict) ? resource.status.verdict : "not yet"`, want: Wait},
		"resource has spoken": {expression: `has(resource.status.verdict) ? resource.status.verdict : "not yet"`, change: func(in *Inputs) { in.Resource["status"] = map[string]any{"verdict": true} }, want: Approve},
		"mixed branches":      {expression: `object.spec.replicas == 3 ? dyn("not yet") : false`, want: Wait},
		"no resource":         {expression: `resource == null`, change: func(in *Inputs) { in.Resource = nil }, want: Approve},
		"now":                 {expression: `now.getHours("Europe/Berlin") == 10`, want: Approve},
		"library of CRDs":     {expression: `request.reason.find("[0-9.]+") == "1.4.2"`, want: Approve},
		"missing field":       {expression: `object.spec.nothing == 1`, wantErr: "the expression failed: no such key: nothing"},
		"another text":        {expression: `"maybe"`, wantErr: `the expression yielded something else than true, false or "not yet"`},
		"a number":            {expression: `object.spec.replicas`, wantErr: `the expression yielded something else than true, false or "not yet"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			program, err := Compile(tt.expression)
			require.NoError(t, err)
			in := inputs()
			if tt.change != nil {
				tt.change(in)
			}
			got, err := program.Run(context.Background(), in)
			if tt.wantErr != "" {
				require.EqualError(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	tests := map[string]struct{ expression, want string }{
		"syntax":           {`request.`, "the expression does not compile: "},
		"unknown variable": {`secret.data`, "undeclared reference to 'secret'"},
		"a number":         {`1 + 1`, `the expression yields int, but must yield true, false or "not yet"`},
		"a list":           {`[true]`, `the expression yields list(bool), but must yield`},
		"mixed branches":   {`1 == 1 ? true : "not yet"`, "beside true or false, write dyn(\"not yet\")"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(tt.expression)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestUses(t *testing.T) {
	program, err := Compile(`object.spec.replicas > 1 && [1].exists(request, request > 0)`)
	require.NoError(t, err)
	assert.True(t, program.Uses(Object))
	assert.False(t, program.Uses(Resource))
	assert.False(t, program.Uses(Now))
}

func TestRunIsBounded(t *testing.T) {
	program, err := Compile(`request.list.all(a, request.list.all(b, request.list.all(c, a + b + c >= 0)))`)
	require.NoError(t, err)
	list := make([]any, 1000)
	for i := range list {
		list[i] = int64(i)
	}
	in := inputs()
	in.Request["list"] = list
	_, err = program.Run(context.Background(), in)
	require.ErrorContains(t, err, "cost limit exceeded")

	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = program.Run(stopped, in)
	assert.ErrorContains(t, err, "interrupted")
}

func FuzzCompile(f *testing.F) {
	f.Add(`request.requestedBy.username == "dev1"`)
	f.Add(`has(resource.status.verdict) ? resource.status.verdict : "not yet"`)
	f.Add(`object.metadata.labels.exists(k, k.matches("^t"))`)
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 4096 {
			return
		}
		program, err := Compile(expression)
		if err != nil {
			return
		}
		if got, err := program.Run(context.Background(), inputs()); err == nil {
			assert.Contains(t, []Answer{Approve, Reject, Wait}, got)
		}
	})
}
