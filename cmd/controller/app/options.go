// Package app assembles the controller process: flags to options to packages.
package app

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/AlaudaDevops/countersign/pkg/attribution"

	"github.com/AlaudaDevops/countersign/config/policies"
)

// Options are the flags of the controller.
type Options struct {
	// Namespace is where Countersign itself lives.
	Namespace string
	// Username is the controller's own user name, as the API server sees it; empty asks the API server.
	Username string

	WebhookAddress string
	WebhookPort    int
	HealthAddress  string
	MetricsAddress string
	LeaderElect    bool

	// OriginFile names controllers of further kinds of runs; empty is the built-in table.
	OriginFile string
	// ProxyService and ProxyURL say where the proxy is reached, inside the cluster and by people.
	ProxyService string
	ProxyURL     string
	ToolTimeout  time.Duration

	// DirectoryFile describes the directory of people; empty is none, and nobody's author can be verified.
	DirectoryFile string

	// Retention is how long ended requests stay; Archive is where they are written to before they go.
	Retention time.Duration
	Archive   string
	// ReasksPerSecond bounds how fast changed rules ask again.
	ReasksPerSecond float64
	// CreatorRecord is policy, or webhook where the cluster has no mutating policies. All components must say the same.
	CreatorRecord string
	// EpochSettle is how long after the policies were seen in force creator records begin to count.
	EpochSettle time.Duration

	// AutomatedAccounts are the exact user names of the service accounts that may make automated Releases.
	AutomatedAccounts []string
	// Vocabulary names the words in which attribution is shown on Releases.
	Vocabulary string
	// StandingRecheck is how often the standing author of a ReleasePlan is looked up again.
	StandingRecheck time.Duration

	// Limits of requests that still ask.
	PerPerson, PerServiceAccount, PerNamespace int

	// CertLifetime is how long a serving certificate of the webhooks lasts.
	CertLifetime time.Duration

	// Development logs for people instead of machines.
	Development bool
}

// DefaultOptions are those of an ordinary installation.
func DefaultOptions() Options {
	return Options{
		Namespace: "countersign-system", WebhookPort: 9443, HealthAddress: ":8081", MetricsAddress: ":8080",
		ProxyService: "countersign-proxy", ToolTimeout: 10 * time.Second,
		Retention: 30 * 24 * time.Hour, Archive: "-", ReasksPerSecond: 10, CreatorRecord: policies.CreatorRecordPolicy, EpochSettle: 10 * time.Second,
		Vocabulary: attribution.VocabularyRHTAP,
		PerPerson:  10, PerServiceAccount: 100, PerNamespace: 100, CertLifetime: 90 * 24 * time.Hour, StandingRecheck: time.Hour,
	}
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of Countersign itself")
	f.StringVar(&o.Username, "username", o.Username, "user name of this controller as the API server sees it; empty asks the API server")
	f.StringVar(&o.WebhookAddress, "webhook-address", o.WebhookAddress, "address that the webhooks listen on; empty is all")
	f.IntVar(&o.WebhookPort, "webhook-port", o.WebhookPort, "port of the webhooks")
	f.StringVar(&o.HealthAddress, "health-address", o.HealthAddress, "address of /healthz and /readyz")
	f.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "address of /metrics; 0 serves none")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "run the controllers on one replica only")
	f.StringVar(&o.OriginFile, "origin-config", o.OriginFile, "file that says which controllers create which runs; empty is the built-in table")
	f.StringVar(&o.ProxyService, "proxy-service", o.ProxyService, "name of the proxy's Service")
	f.StringVar(&o.ProxyURL, "proxy-url", o.ProxyURL, "base URL under which people reach the proxy; empty is by host name inside the cluster")
	f.DurationVar(&o.ToolTimeout, "tool-timeout", o.ToolTimeout, "bound of each call to a tool")
	f.StringVar(&o.DirectoryFile, "directory-config", o.DirectoryFile, "file that describes the directory of people; empty is none, and authors wait to be verified")
	f.DurationVar(&o.Retention, "retention", o.Retention, "how long ended requests are kept")
	f.StringVar(&o.Archive, "archive", o.Archive, "file that ended requests are written to before they are deleted; - is standard output")
	f.Float64Var(&o.ReasksPerSecond, "reasks-per-second", o.ReasksPerSecond, "how many requests ask again each second after a rule changed")
	f.StringVar(&o.CreatorRecord, "creator-record", o.CreatorRecord, "what writes who created an object: policy, or webhook in clusters without MutatingAdmissionPolicy; the proxy needs the same")
	f.DurationVar(&o.EpochSettle, "epoch-settle", o.EpochSettle, "how long after the policies were seen in force creator records begin to count; 0 is right with a single API server")
	f.StringArrayVar(&o.AutomatedAccounts, "automated-service-accounts", o.AutomatedAccounts, "exact user name of a service account that may make automated Releases, system:serviceaccount:NAMESPACE:NAME; may be repeated")
	f.StringVar(&o.Vocabulary, "release-vocabulary", o.Vocabulary, "words in which attribution is shown on Releases: rhtap, appstudio or authorization")
	f.DurationVar(&o.StandingRecheck, "standing-recheck", o.StandingRecheck, "how often the standing author of a ReleasePlan is looked up again")
	f.IntVar(&o.PerPerson, "limit-person", o.PerPerson, "requests of one person for one object that may ask at a time")
	f.IntVar(&o.PerServiceAccount, "limit-service-account", o.PerServiceAccount, "requests for one service account and object that may ask at a time")
	f.IntVar(&o.PerNamespace, "limit-namespace", o.PerNamespace, "requests from one namespace for one object that may ask at a time")
	f.DurationVar(&o.CertLifetime, "webhook-cert-lifetime", o.CertLifetime, "how long a serving certificate of the webhooks lasts")
	f.BoolVar(&o.Development, "development", o.Development, "log for people instead of machines")
}

// Validate returns one sentence for the first option that cannot be.
func (o *Options) Validate() error {
	switch {
	case o.Retention < 0:
		return fmt.Errorf("--retention is %s, but cannot be negative", o.Retention)
	case o.ToolTimeout <= 0:
		return fmt.Errorf("--tool-timeout is %s, but must be positive", o.ToolTimeout)
	case o.ReasksPerSecond <= 0:
		return fmt.Errorf("--reasks-per-second is %v, but must be positive", o.ReasksPerSecond)
	case o.PerPerson < 1 || o.PerServiceAccount < 1 || o.PerNamespace < 1:
		return fmt.Errorf("--limit-person, --limit-service-account and --limit-namespace must be at least 1")
	case o.StandingRecheck < time.Second:
		return fmt.Errorf("--standing-recheck is %s, but must be at least a second", o.StandingRecheck)
	case o.CertLifetime < time.Hour:
		return fmt.Errorf("--webhook-cert-lifetime is %s, but must be at least an hour", o.CertLifetime)
	case o.EpochSettle < 0:
		return fmt.Errorf("--epoch-settle is %s, but cannot be negative", o.EpochSettle)
	}
	for _, name := range o.AutomatedAccounts {
		if _, _, ok := attribution.ServiceAccount(name); !ok {
			return fmt.Errorf("--automated-service-accounts is %q, but only a service account makes automated Releases: give system:serviceaccount:NAMESPACE:NAME", name)
		}
	}
	_, err := policies.CreatorWebhook(o.CreatorRecord)
	return err
}
