package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// DefaultPageSize is how many users are asked for at a time. Two are enough to see that a name is not unique.
const DefaultPageSize = 2

// Server is the part of a configuration that says where users are and how they are looked at.
type Server struct {
	// URL is the service's https:// address.
	URL string `json:"url"`
	// InsecurePlaintext allows http://. Whoever is on the way can then read what we log in with and invent people.
	InsecurePlaintext bool `json:"insecurePlaintext,omitempty"`
	// CAFile holds the authorities that the server's certificate may come from, in PEM form; those of the host if empty.
	// It is read once.
	CAFile string `json:"caFile,omitempty"`
	// CaseInsensitive also takes a name that differs in case only. By default names are compared byte for byte, although
	// services match many attributes without regard to case.
	CaseInsensitive bool `json:"caseInsensitive,omitempty"`
	// PageSize is how many users are asked for at a time, 2 by default, at most 64.
	PageSize int `json:"pageSize,omitempty"`
}

// Validate returns nil, or one sentence that says what to change.
func (s *Server) Validate() error {
	if s.PageSize < 0 || s.PageSize > source.MaxCandidates {
		return fmt.Errorf("a pageSize of %d is impossible: choose 1 to %d, or 0 for the default", s.PageSize, source.MaxCandidates)
	}
	return CheckURL("url", s.URL, s.InsecurePlaintext)
}

// Open completes the configuration, and returns what it is asked with. It does not connect.
func (s *Server) Open() (client *http.Client, base *url.URL, err error) {
	if s.PageSize == 0 {
		s.PageSize = DefaultPageSize
	}
	if base, err = url.Parse(s.URL); err != nil {
		return nil, nil, err
	}
	client, err = NewHTTP(s.CAFile)
	return client, base, err
}

// Search finds the only user with a name in what a service shows page by page. U is what the service calls a user.
type Search[U any] struct {
	// Page reads users whom the service finds by the name, without the first that were seen, and tells whether no more
	// follow.
	Page func(ctx context.Context, name string, seen int) (page []U, last bool, err error)
	// ID tells users apart.
	ID func(*U) string
	// Names is what a user holds where the name is looked for.
	Names           func(*U) []string
	CaseInsensitive bool
	// Admit returns the person, or why the user is none.
	Admit func(*U) (*directory.Person, error)
}

// One looks a person up as directory.Directory has it.
func (s *Search[U]) One(ctx context.Context, name string) (*directory.Person, error) {
	if err := source.CheckName(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, source.MaxLookup)
	defer cancel()
	var choice source.Choice[*directory.Person]
	for !choice.Full() {
		page, last, err := s.Page(ctx, name, choice.Seen())
		if err != nil {
			return nil, err
		}
		if err := s.weigh(page, name, &choice); err != nil {
			return nil, err
		}
		if last || choice.Twice() {
			return choice.One()
		}
	}
	return nil, source.ErrTooMany
}

// weigh counts the users, and accepts or refuses those who have exactly the name.
func (s *Search[U]) weigh(page []U, name string, choice *source.Choice[*directory.Person]) error {
	for i := range page {
		if err := choice.See(s.ID(&page[i])); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.Names(&page[i]), func(held string) bool { return source.Same(held, name, s.CaseInsensitive) }) {
			continue
		}
		if person, err := s.Admit(&page[i]); err != nil {
			choice.Refuse(err)
		} else {
			choice.Accept(person)
		}
	}
	return nil
}
