// Package app assembles the proxy process: flags to options to packages.
package app

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/gate"
	"github.com/AlaudaDevops/countersign/pkg/proxy"
	"github.com/AlaudaDevops/countersign/pkg/proxy/stream"
	"github.com/AlaudaDevops/countersign/pkg/proxy/upstream"
)

// Options are the flags of the proxy.
type Options struct {
	Server proxy.ServerOptions
	// HostSuffixes are the domains below which connectors have host names; PublicURL is where people reach the proxy.
	HostSuffixes []string
	PublicURL    string
	// AccessLog is a file, or - for standard output.
	AccessLog string

	// AuthenticationConfig is the API server's own file; empty lets only service accounts in.
	AuthenticationConfig string
	// Audiences are those that service account tokens must be for.
	Audiences []string
	// Issuers are the cluster's issuers of service account tokens; empty asks the API server.
	Issuers []string
	// StrictTokenReview asks the API server about every token.
	StrictTokenReview bool
	// SelfToken is a file with a token for the proxy's audience, by which the two readings are compared at start.
	SelfToken string
	// AuthorizationTTL is how long the API server's answer about a permission counts.
	AuthorizationTTL time.Duration

	// Namespace is where Countersign itself lives, LeaseName the name of this replica's heartbeat.
	Namespace, LeaseName string
	// Staleness is how long watches may be silent.
	Staleness time.Duration
	// OriginFile names controllers of further kinds of runs; empty is the built-in table.
	OriginFile string
	// DirectoryFile describes the directory of people; empty is none, and whois knows nobody.
	DirectoryFile string
	// CreatorRecord is what the controller's flag of that name is.
	CreatorRecord string

	Upstream       upstream.Options
	DeniedNetworks []string
	Streams        stream.Options

	// Development logs for people instead of machines.
	Development bool
}

// DefaultOptions are those of an ordinary installation.
func DefaultOptions() Options {
	o := Options{
		Server: proxy.DefaultServerOptions(), HostSuffixes: []string{"connectors.local", "svc", "svc.cluster.local"}, AccessLog: "-",
		Audiences: []string{"countersign-proxy"}, SelfToken: "/var/run/secrets/countersign/token", AuthorizationTTL: authz.DefaultAllowTTL,
		Namespace: "countersign-system", LeaseName: leaseName(), Staleness: gate.DefaultStaleness,
		CreatorRecord: policies.CreatorRecordPolicy,
		Upstream:      upstream.DefaultOptions(), Streams: stream.DefaultOptions(),
	}
	for _, network := range o.Upstream.DeniedNetworks {
		o.DeniedNetworks = append(o.DeniedNetworks, network.String())
	}
	return o
}

// leaseName is one for each replica: a pod's host name is its own name.
func leaseName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return "countersign-proxy-" + strings.ToLower(host)
}

// AddFlags binds the options to flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	o.addServing(f)
	o.addCallers(f)
	o.addCluster(f)
	o.addTools(f)
	f.BoolVar(&o.Development, "development", o.Development, "log for people instead of machines")
}

func (o *Options) addServing(f *pflag.FlagSet) {
	f.StringVar(&o.Server.Address, "address", o.Server.Address, "address of the proxy itself, over TLS")
	f.StringVar(&o.Server.HealthAddress, "health-address", o.Server.HealthAddress, "address of /healthz, /readyz and /metrics, without TLS")
	f.StringVar(&o.Server.CertFile, "tls-cert-file", o.Server.CertFile, "serving certificate; read again when it changes")
	f.StringVar(&o.Server.KeyFile, "tls-private-key-file", o.Server.KeyFile, "key of the serving certificate")
	f.StringSliceVar(&o.HostSuffixes, "host-suffix", o.HostSuffixes, "domains below which a connector has the host name c-NAME.NAMESPACE")
	f.StringVar(&o.PublicURL, "public-url", o.PublicURL, "base URL under which clients reach the proxy; lets answers by host name lead to address extensions")
	f.StringVar(&o.AccessLog, "access-log", o.AccessLog, "file of the access log; - is standard output")
	f.DurationVar(&o.Server.HeaderTimeout, "header-timeout", o.Server.HeaderTimeout, "how long the header of a request may take to arrive")
	f.DurationVar(&o.Server.IdleTimeout, "idle-timeout", o.Server.IdleTimeout, "how long a connection may wait for its next request")
	f.DurationVar(&o.Server.DrainDelay, "drain-delay", o.Server.DrainDelay, "how long new requests are still taken after a signal to end")
	f.DurationVar(&o.Server.DrainTimeout, "drain-timeout", o.Server.DrainTimeout, "how long requests may take afterwards before they are cut")
}

func (o *Options) addCallers(f *pflag.FlagSet) {
	f.StringVar(&o.AuthenticationConfig, "authentication-config", o.AuthenticationConfig, "the API server's AuthenticationConfiguration file, for people; empty lets only service accounts in")
	f.StringSliceVar(&o.Audiences, "audience", o.Audiences, "audiences of which a service account's token must name one")
	f.StringSliceVar(&o.Issuers, "service-account-issuer", o.Issuers, "issuers of service account tokens; empty asks the API server for its own")
	f.BoolVar(&o.StrictTokenReview, "strict-token-review", o.StrictTokenReview, "ask the API server about every token, instead of only about keys")
	f.StringVar(&o.SelfToken, "self-token-file", o.SelfToken, "file with a token for the proxy's audience, by which the proxy's reading is compared with the API server's at start")
	f.DurationVar(&o.AuthorizationTTL, "sar-ttl", o.AuthorizationTTL, "how long the API server's answer about a permission counts")
}

func (o *Options) addCluster(f *pflag.FlagSet) {
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of Countersign itself")
	f.StringVar(&o.LeaseName, "lease-name", o.LeaseName, "name of the Lease that proves that watches deliver; one for each replica")
	f.DurationVar(&o.Staleness, "staleness", o.Staleness, "how long watches may be silent before everything is refused")
	f.StringVar(&o.OriginFile, "origin-config", o.OriginFile, "file that says which controllers create which runs; empty is the built-in table")
	f.StringVar(&o.CreatorRecord, "creator-record", o.CreatorRecord, "what writes who created an object: policy or webhook, as the controller's flag says")
	f.StringVar(&o.DirectoryFile, "directory-config", o.DirectoryFile, "file that describes the directory of people, as the controller has it; empty is none, and whois knows nobody")
	f.DurationVar(&o.Upstream.SecretTTL, "secret-cache-ttl", o.Upstream.SecretTTL, "how long a connector's Secret is used before it is read again; at most 60s")
	f.DurationVar(&o.Upstream.SecretTimeout, "secret-timeout", o.Upstream.SecretTimeout, "how long reading a connector's Secrets may take")
}

func (o *Options) addTools(f *pflag.FlagSet) {
	f.DurationVar(&o.Upstream.HeaderTimeout, "upstream-timeout", o.Upstream.HeaderTimeout, "how long a tool may take to begin its answer")
	f.DurationVar(&o.Upstream.DialTimeout, "upstream-dial-timeout", o.Upstream.DialTimeout, "how long connecting to a tool may take")
	f.DurationVar(&o.Upstream.TLSTimeout, "upstream-tls-timeout", o.Upstream.TLSTimeout, "how long the TLS handshake with a tool may take")
	f.DurationVar(&o.Upstream.TokenTimeout, "upstream-token-timeout", o.Upstream.TokenTimeout, "how long a registry's token exchange may take")
	f.DurationVar(&o.Upstream.IdleTimeout, "upstream-idle-timeout", o.Upstream.IdleTimeout, "how long an unused connection to a tool is kept")
	f.IntVar(&o.Upstream.MaxIdleConnections, "upstream-idle-connections", o.Upstream.MaxIdleConnections, "how many unused connections to one tool are kept")
	f.StringSliceVar(&o.DeniedNetworks, "denied-network", o.DeniedNetworks, "networks in which no tool may lie, whatever its name resolves to")
	f.DurationVar(&o.Streams.After, "stream-after", o.Streams.After, "how long a request may take before it is decided about again")
	f.DurationVar(&o.Streams.Recheck, "stream-recheck", o.Streams.Recheck, "the longest time between two decisions about a stream")
	f.DurationVar(&o.Streams.Grace, "stream-grace", o.Streams.Grace, "how long a stream goes on while no decision can be made")
	f.DurationVar(&o.Streams.Stall, "stream-stall", o.Streams.Stall, "how long a caller may neither read nor write before he is dropped")
}

// Validate returns one sentence for the first option that cannot be, and reads the texts among them.
func (o *Options) Validate() error {
	if o.Server.CertFile == "" || o.Server.KeyFile == "" {
		return errors.New("--tls-cert-file and --tls-private-key-file are needed: tokens are only taken over TLS")
	}
	if len(o.Audiences) == 0 {
		return errors.New("--audience is needed: without one any service account's token would do")
	}
	if o.Upstream.SecretTTL <= 0 || o.Upstream.SecretTTL > upstream.MaxSecretTTL {
		return fmt.Errorf("--secret-cache-ttl is %s, but must be positive and at most %s", o.Upstream.SecretTTL, upstream.MaxSecretTTL)
	}
	if _, err := policies.CreatorWebhook(o.CreatorRecord); err != nil {
		return err
	}
	if err := o.checkTimes(); err != nil {
		return err
	}
	if err := o.readPublicURL(); err != nil {
		return err
	}
	return o.readNetworks()
}

func (o *Options) checkTimes() error {
	for name, d := range map[string]time.Duration{
		"header-timeout": o.Server.HeaderTimeout, "idle-timeout": o.Server.IdleTimeout, "staleness": o.Staleness,
		"secret-timeout": o.Upstream.SecretTimeout, "upstream-timeout": o.Upstream.HeaderTimeout, "upstream-dial-timeout": o.Upstream.DialTimeout,
		"upstream-tls-timeout": o.Upstream.TLSTimeout, "upstream-token-timeout": o.Upstream.TokenTimeout, "upstream-idle-timeout": o.Upstream.IdleTimeout,
		"stream-after": o.Streams.After, "stream-recheck": o.Streams.Recheck, "stream-grace": o.Streams.Grace, "stream-stall": o.Streams.Stall,
	} {
		if d <= 0 {
			return fmt.Errorf("--%s is %s, but must be positive", name, d)
		}
	}
	for name, d := range map[string]time.Duration{"drain-delay": o.Server.DrainDelay, "drain-timeout": o.Server.DrainTimeout, "sar-ttl": o.AuthorizationTTL} {
		if d < 0 {
			return fmt.Errorf("--%s is %s, but cannot be negative", name, d)
		}
	}
	return nil
}

func (o *Options) readPublicURL() error {
	if o.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(o.PublicURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("--public-url %q is no https URL of a host alone", o.PublicURL)
	}
	o.PublicURL = strings.TrimRight(o.PublicURL, "/")
	return nil
}

func (o *Options) readNetworks() error {
	o.Upstream.DeniedNetworks = nil
	for _, text := range o.DeniedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--denied-network %q is no network in CIDR form", text)
		}
		o.Upstream.DeniedNetworks = append(o.Upstream.DeniedNetworks, network.Masked())
	}
	return nil
}
