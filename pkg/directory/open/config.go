package open

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/keycloak"
	"github.com/AlaudaDevops/countersign/pkg/directory/ldap"
	"github.com/AlaudaDevops/countersign/pkg/directory/openshift"
	"github.com/AlaudaDevops/countersign/pkg/directory/scim"
	"github.com/AlaudaDevops/countersign/pkg/directory/static"
)

// Config is the configuration file.
type Config struct {
	// Type names the one section that is read; static if it is left out.
	Type      string            `json:"type,omitempty"`
	Static    *static.Config    `json:"static,omitempty"`
	LDAP      *ldap.Config      `json:"ldap,omitempty"`
	Keycloak  *keycloak.Config  `json:"keycloak,omitempty"`
	SCIM      *scim.Config      `json:"scim,omitempty"`
	OpenShift *openshift.Config `json:"openshift,omitempty"`
	// Cache bounds what is remembered and how the directory is asked.
	Cache Cache `json:"cache,omitempty"`
}

// typeStatic is the type of who writes none.
const typeStatic = "static"

// maker makes a directory from its section.
type maker func(Deps) (directory.Directory, error)

// kind is one type of directory.
type kind struct {
	name     string
	given    bool
	optional bool // works without a section
	build    maker
}

// kinds is the list of all types.
func (c *Config) kinds() []kind {
	return []kind{
		{name: typeStatic, given: c.Static != nil, build: func(d Deps) (directory.Directory, error) { return static.New(*c.Static, d.Clock) }},
		{name: "ldap", given: c.LDAP != nil, build: func(Deps) (directory.Directory, error) { return ldap.New(*c.LDAP) }},
		{name: "keycloak", given: c.Keycloak != nil, build: func(Deps) (directory.Directory, error) { return keycloak.New(*c.Keycloak) }},
		{name: "scim", given: c.SCIM != nil, build: func(Deps) (directory.Directory, error) { return scim.New(*c.SCIM) }},
		{name: "openshift", given: c.OpenShift != nil, optional: true, build: c.openShift},
	}
}

func (c *Config) openShift(d Deps) (directory.Directory, error) {
	var section openshift.Config
	if c.OpenShift != nil {
		section = *c.OpenShift
	}
	return openshift.New(section, d.Dynamic)
}

// Cache is directory.Options in a file. What is left out is the default; zero is none.
type Cache struct {
	Positive    *metav1.Duration `json:"positive,omitempty"`
	Negative    *metav1.Duration `json:"negative,omitempty"`
	MaxStale    *metav1.Duration `json:"maxStale,omitempty"`
	Timeout     *metav1.Duration `json:"timeout,omitempty"`
	Backoff     *metav1.Duration `json:"backoff,omitempty"`
	RetryAfter  *metav1.Duration `json:"retryAfter,omitempty"`
	Retries     *int             `json:"retries,omitempty"`
	Entries     *int             `json:"entries,omitempty"`
	Concurrency *int             `json:"concurrency,omitempty"`
	Breaker     Breaker          `json:"breaker,omitempty"`
}

// Breaker is directory.Breaker in a file.
type Breaker struct {
	Failures *int             `json:"failures,omitempty"`
	Open     *metav1.Duration `json:"open,omitempty"`
}

func (c *Cache) options() (directory.Options, error) {
	var o directory.Options
	for _, f := range []struct {
		name  string
		from  *metav1.Duration
		to    *time.Duration
		least time.Duration
	}{
		{"positive", c.Positive, &o.Positive, 0}, {"negative", c.Negative, &o.Negative, 0}, {"maxStale", c.MaxStale, &o.MaxStale, 0},
		{"timeout", c.Timeout, &o.Timeout, time.Millisecond}, {"backoff", c.Backoff, &o.Backoff, 0},
		{"retryAfter", c.RetryAfter, &o.RetryAfter, time.Second}, {"breaker.open", c.Breaker.Open, &o.Breaker.Open, 0},
	} {
		if f.from == nil {
			continue
		}
		if f.from.Duration < f.least {
			return o, fmt.Errorf("cache.%s is %s, but must be at least %s", f.name, f.from.Duration, f.least)
		}
		*f.to = orNone(f.from.Duration)
	}
	for _, f := range []struct {
		name  string
		from  *int
		to    *int
		least int
	}{
		{"retries", c.Retries, &o.Retries, 0}, {"entries", c.Entries, &o.Entries, 1},
		{"concurrency", c.Concurrency, &o.Concurrency, 1}, {"breaker.failures", c.Breaker.Failures, &o.Breaker.Failures, 1},
	} {
		if f.from == nil {
			continue
		}
		if *f.from < f.least {
			return o, fmt.Errorf("cache.%s is %d, but must be at least %d", f.name, *f.from, f.least)
		}
		*f.to = orNone(*f.from)
	}
	return o, nil
}

// orNone turns a zero that was written into directory.Options' word for none.
func orNone[T ~int | ~int64](value T) T {
	if value == 0 {
		return -1
	}
	return value
}
