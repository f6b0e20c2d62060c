package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOptionsThatCannotBeStopTheStart(t *testing.T) {
	tests := map[string]struct {
		set  func(*Options)
		want string
	}{
		"as shipped":            {func(*Options) {}, ""},
		"a service account":     {func(o *Options) { o.AutomatedAccounts = []string{"system:serviceaccount:ci:bot"} }, ""},
		"a person as a program": {func(o *Options) { o.AutomatedAccounts = []string{"system:serviceaccount:ci:bot", "alice"} }, `--automated-service-accounts is "alice"`},
		"half a service account": {func(o *Options) { o.AutomatedAccounts = []string{"system:serviceaccount:ci"} },
			`--automated-service-accounts is "system:serviceaccount:ci"`},
		"settles at once":         {func(o *Options) { o.EpochSettle = 0 }, ""},
		"settled before":          {func(o *Options) { o.EpochSettle = -time.Second }, "--epoch-settle is -1s, but cannot be negative"},
		"retention in the past":   {func(o *Options) { o.Retention = -time.Hour }, "--retention is -1h0m0s"},
		"no time for tools":       {func(o *Options) { o.ToolTimeout = 0 }, "--tool-timeout is 0s"},
		"never asks again":        {func(o *Options) { o.ReasksPerSecond = 0 }, "--reasks-per-second is 0"},
		"nobody may ask":          {func(o *Options) { o.PerPerson = 0 }, "--limit-person"},
		"rechecks all the time":   {func(o *Options) { o.StandingRecheck = 0 }, "--standing-recheck is 0s"},
		"certificates of minutes": {func(o *Options) { o.CertLifetime = time.Minute }, "--webhook-cert-lifetime is 1m0s"},
		"another creator record":  {func(o *Options) { o.CreatorRecord = "guess" }, "guess"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := DefaultOptions()
			tt.set(&o)
			err := o.Validate()
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tt.want)
		})
	}
}
