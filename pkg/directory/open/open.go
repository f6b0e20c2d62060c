// Package open makes the directory that a configuration file describes.
package open

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// NoDirectory is what look-ups say when no file is configured.
const NoDirectory = directory.Absent("no directory is configured: start the controller with --directory-config")

// Deps is what directories need of the process.
type Deps struct {
	// Clock is the real one if nil.
	Clock clock.Clock
	// Dynamic is the client of the API server, for type openshift.
	Dynamic dynamic.Interface
	// Metrics registers the metrics of look-ups; nil counts for nobody.
	Metrics prometheus.Registerer
}

// Open returns the directory that the YAML file at path describes, behind its cache. An empty path is a directory that
// never answers and says so. The file is read once; files that it names are read again when they change.
func Open(path string, deps Deps) (*directory.Cached, error) {
	if deps.Clock == nil {
		deps.Clock = clock.RealClock{}
	}
	if path == "" {
		// There is nobody to spare, so the breaker would only bury the sentence.
		never := directory.Breaker{Failures: math.MaxInt}
		return directory.New(NoDirectory, directory.Options{Name: "none", Clock: deps.Clock, Breaker: never}, deps.Metrics), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the directory's configuration cannot be read: %w", err)
	}
	config, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("the directory's configuration %s is not valid: %w", path, err)
	}
	cached, err := config.open(deps)
	if err != nil {
		return nil, fmt.Errorf("the directory's configuration %s is not valid: %w", path, err)
	}
	return cached, nil
}

// decode refuses unknown fields, double keys and further documents: a setting that does not count must be noticed.
func decode(content []byte) (c Config, err error) {
	asJSON, err := onlyDocument(content)
	if err != nil {
		return c, err
	}
	strict, err := kjson.UnmarshalStrict(asJSON, &c)
	return c, errors.Join(append(strict, err)...)
}

func onlyDocument(content []byte) ([]byte, error) {
	only := []byte("{}")
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for found := false; ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSONStrict(document)
		switch {
		case err != nil:
			return nil, err
		case string(asJSON) == "null": // comments only
			continue
		case found:
			return nil, errors.New("it has more than one YAML document: keep one")
		}
		only, found = asJSON, true
	}
}

func (c *Config) open(deps Deps) (*directory.Cached, error) {
	chosen, err := c.choose()
	if err != nil {
		return nil, err
	}
	options, err := c.Cache.options()
	if err != nil {
		return nil, err
	}
	inner, err := chosen.build(deps)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", chosen.name, err)
	}
	options.Name, options.Clock = chosen.name, deps.Clock
	return directory.New(inner, options, deps.Metrics), nil
}

// choose returns the type, and refuses sections of others.
func (c *Config) choose() (*kind, error) {
	var chosen *kind
	var names []string
	for _, k := range c.kinds() {
		names = append(names, k.name)
		switch {
		case k.name == cmp.Or(c.Type, typeStatic):
			chosen = &k
		case k.given && c.Type == "":
			return nil, fmt.Errorf("there is a section %[1]s but no type, which means %[2]s: write type: %[1]s", k.name, typeStatic)
		case k.given:
			return nil, fmt.Errorf("type is %q, but there is a section %s: remove the section or change the type", c.Type, k.name)
		}
	}
	switch {
	case chosen == nil:
		return nil, fmt.Errorf("type is %q: write one of %s", c.Type, strings.Join(names, ", "))
	case !chosen.given && c.Type == "":
		return nil, fmt.Errorf("it names no people: write static: {path: /etc/countersign/people}, or a type, which is one of %s, and its section", strings.Join(names, ", "))
	case !chosen.given && !chosen.optional:
		return nil, fmt.Errorf("the section %s is missing", c.Type)
	}
	return chosen, nil
}
