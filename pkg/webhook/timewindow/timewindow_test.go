package timewindow

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

func TestOnlySchedulesThatCanBeRead(t *testing.T) {
	tests := map[string]struct{ spec, want string }{
		"working hours":  {"{timeZone: Europe/Berlin, windows: [{weekdays: [Monday], from: '09:00', to: '17:00'}], holidays: ['2026-12-25']}", ""},
		"default zone":   {"{windows: [{from: '00:00', to: '24:00'}]}", ""},
		"over night":     {"{windows: [{from: '22:00', to: '06:00'}]}", ""},
		"a whole day":    {"{windows: [{from: '00:00', to: '24:00'}, {from: '09:00', to: '09:00'}]}", "spec.windows[1].to: it is the same as from"},
		"unknown zone":   {"{timeZone: Europe/Atlantis, windows: [{from: '09:00', to: '17:00'}]}", "Europe/Atlantis"},
		"local zone":     {"{timeZone: Local, windows: [{from: '09:00', to: '17:00'}]}", `"Local" is no time zone`},
		"no such day":    {"{windows: [{from: '09:00', to: '17:00'}], holidays: ['2026-02-30']}", `"2026-02-30" is no date`},
		"no such time":   {"{windows: [{from: '09:00', to: '25:00'}]}", `"25:00" is no time of day`},
		"not a schedule": {"{windows: x}", "spec.windows"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := yaml.YAMLToJSON([]byte(test.spec))
			require.NoError(t, err)
			var spec map[string]any
			require.NoError(t, json.Unmarshal(data, &spec))
			r := &admit.Review{Operation: admissionv1.Create, Object: &unstructured.Unstructured{Object: map[string]any{"spec": spec}}}
			err = New().Validate(t.Context(), r)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestStoredChecksStayWritable(t *testing.T) {
	stored := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"timeZone": "Europe/Atlantis"}}}
	labelled := stored.DeepCopy()
	labelled.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, New().Validate(t.Context(), &admit.Review{Operation: admissionv1.Update, Old: stored, Object: labelled}))
}
