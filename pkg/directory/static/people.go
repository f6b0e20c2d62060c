package static

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// document is the shape of a YAML document. Unknown fields, double keys, and names that YAML takes for numbers or truth
// values (no, 007) are refused.
type document struct {
	People []person `json:"people"`
}

// person is one entry of a file.
type person struct {
	// Username is the name as the API server has it, compared exactly.
	Username string `json:"username"`
	// Aliases are further names of the same person.
	Aliases []string `json:"aliases,omitempty"`
	// UID, DisplayName and Email become those of directory.Person.
	UID         string `json:"uid,omitempty"`
	DisplayName string `json:"displayName,omitempty"`
	Email       string `json:"email,omitempty"`
	// Disabled says that the account may not be used.
	Disabled bool `json:"disabled,omitempty"`
}

// people are indexed by every name; a nil entry is a name that several have.
type people struct{ byName map[string]*person }

// parse refuses files that look cut off: taking them at their word would make people unknown who are not.
func parse(all files) (*people, error) {
	p := &people{byName: map[string]*person{}}
	for _, f := range all {
		if err := p.addFile(f); err != nil {
			return nil, fmt.Errorf("the people's file %s is not valid: %w", f.name, err)
		}
	}
	if len(p.byName) == 0 {
		return nil, errors.New("the people's file names nobody: list at least one person under people")
	}
	return p, nil
}

func (p *people) addFile(f file) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.content)))
	for {
		content, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := decode(content)
		if err != nil {
			return err
		}
		if err := p.add(d.People); err != nil {
			return err
		}
	}
}

func decode(content []byte) (d document, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return d, err
	}
	strict, err := kjson.UnmarshalStrict(asJSON, &d)
	return d, errors.Join(append(strict, err)...)
}

func (p *people) add(all []person) error {
	for i := range all {
		who := &all[i]
		for _, name := range append([]string{who.Username}, who.Aliases...) {
			if name == "" {
				return fmt.Errorf("person %d has an empty username or alias", i+1)
			}
			p.claim(name, who)
		}
	}
	return nil
}

func (p *people) claim(name string, who *person) {
	if before, taken := p.byName[name]; taken && before != who {
		who = nil
	}
	p.byName[name] = who
}

func (p *people) find(username string) (*directory.Person, error) {
	who, found := p.byName[username]
	switch {
	case !found:
		return nil, directory.ErrUnknown
	case who == nil:
		return nil, &directory.UnknownError{Why: "the directory has this user name more than once"}
	case who.Disabled:
		return nil, &directory.UnknownError{Why: "the account is disabled"}
	}
	return &directory.Person{UID: who.UID, DisplayName: who.DisplayName, Email: who.Email}, nil
}
