package ldap

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// filters are the configuration's part of every filter (RFC 4515).
type filters struct {
	attribute string
	extra     string // empty, or a filter that holds for people
	disabled  string // empty, or a filter that holds for who may not log in
}

func newFilters(c *Config) filters {
	f := filters{attribute: c.UserAttribute, extra: c.Filter}
	if c.Disabled == nil {
		return f
	}
	alternatives := []string{c.Disabled.Filter}
	if c.Disabled.Attribute != "" && len(c.Disabled.Values) == 0 {
		alternatives = append(alternatives, "("+c.Disabled.Attribute+"=*)")
	}
	for _, value := range c.Disabled.Values {
		alternatives = append(alternatives, equal(c.Disabled.Attribute, value))
	}
	f.disabled = "(|" + strings.Join(alternatives, "") + ")"
	return f
}

func equal(attribute, value string) string {
	return "(" + attribute + "=" + ldapv3.EscapeFilter(value) + ")"
}

// named holds for people with the name.
func (f *filters) named(name string) string { return "(&" + equal(f.attribute, name) + f.extra + ")" }

// enabled holds for people with the name who may log in. Where the server cannot tell whether somebody is disabled, because
// it does not know the attribute, it holds for nobody (RFC 4511 section 4.5.1.7).
func (f *filters) enabled(name string) string {
	if f.disabled == "" {
		return f.named(name)
	}
	return "(&" + equal(f.attribute, name) + f.extra + "(!" + f.disabled + "))"
}

// anybody holds for every person.
func (f *filters) anybody() string { return "(&(" + f.attribute + "=*)" + f.extra + ")" }

// search is one look-up on one connection.
type search struct {
	*Client
	session *session
	name    string
	seconds int // that the server may take for one request
}

func (s *search) find() (*directory.Person, error) {
	entry, err := s.one(s.filters.enabled(s.name))
	if err == nil {
		return s.person(entry), nil
	}
	if errors.Is(err, source.ErrAbsent) || errors.Is(err, source.ErrSpelling) {
		return nil, s.why(err)
	}
	return nil, err
}

// why finds out whether nobody enabled has the name because its owner is disabled, or nobody has it, or because the
// directory cannot tell.
func (s *search) why(no error) error {
	if s.filters.disabled != "" {
		switch entry, err := s.one(s.filters.named(s.name)); {
		case err == nil:
			return s.whyNotEnabled(entry)
		case !errors.Is(err, source.ErrAbsent):
			return err
		}
	}
	if errors.Is(no, source.ErrSpelling) {
		return no
	}
	return s.whyAbsent(no)
}

func (s *search) whyNotEnabled(entry *ldapv3.Entry) error {
	disabled, err := s.exists(entry.DN, ldapv3.ScopeBaseObject, s.filters.disabled)
	switch {
	case err != nil:
		return err
	case disabled:
		return source.ErrDisabled
	}
	return source.Mend("the directory cannot tell whether somebody is disabled: check that it knows the attribute or filter of disabled, and lets bindDN search by it")
}

func (s *search) whyAbsent(no error) error {
	anybody, err := s.exists(s.config.BaseDN, s.scope(), s.filters.anybody())
	switch {
	case err != nil:
		return err
	case anybody:
		return no
	}
	return source.Mend("the directory shows nobody at all: check baseDN, userAttribute and filter, and that bindDN may read people's entries")
}

func (s *search) scope() int {
	if s.config.Scope == ScopeOne {
		return ldapv3.ScopeSingleLevel
	}
	return ldapv3.ScopeWholeSubtree
}

// one returns the only entry that has exactly the name.
func (s *search) one(filter string) (*ldapv3.Entry, error) {
	request := s.request(s.config.BaseDN, s.scope(), filter, source.MaxCandidates)
	paging := ldapv3.NewControlPaging(s.config.PageSize)
	request.Controls = []ldapv3.Control{paging}
	var choice source.Choice[*ldapv3.Entry]
	for {
		result, err := s.ask(request)
		if err != nil && !exceeded(err) {
			return nil, err
		}
		if wrong := s.weigh(result.Entries, &choice); wrong != nil {
			return nil, wrong
		}
		cookie := next(result)
		switch {
		case len(cookie) == 0 && err == nil:
			return choice.One()
		case choice.Twice():
			s.session.spoiled = true // with pages that nobody will read
			return choice.One()
		case err != nil, choice.Full():
			s.session.spoiled = true
			return nil, source.ErrTooMany
		}
		paging.SetCookie(cookie)
	}
}

// weigh counts the entries, and accepts those that have exactly the name.
func (s *search) weigh(entries []*ldapv3.Entry, choice *source.Choice[*ldapv3.Entry]) error {
	for _, entry := range entries {
		if err := choice.See(entry.DN); err != nil {
			return err
		}
		values := entry.GetEqualFoldAttributeValues(s.config.UserAttribute)
		if len(values) == 0 {
			return source.Mend("the directory finds people by %s but does not show it: use the attribute's first name in the directory's schema, and let bindDN read it", s.config.UserAttribute)
		}
		if slices.ContainsFunc(values, func(v string) bool { return source.Same(v, s.name, s.config.CaseInsensitive) }) {
			choice.Accept(entry)
		}
	}
	return nil
}

// next is the cookie of the next page, empty after the last one and from servers that do not know pages.
func next(result *ldapv3.SearchResult) []byte {
	if paging, ok := ldapv3.FindControl(result.Controls, ldapv3.ControlTypePaging).(*ldapv3.ControlPaging); ok {
		return paging.Cookie
	}
	return nil
}

func (s *search) exists(base string, scope int, filter string) (bool, error) {
	result, err := s.ask(s.request(base, scope, filter, 1))
	if err != nil && !exceeded(err) {
		return false, err
	}
	return len(result.Entries) > 0, nil
}

func (s *search) ask(request *ldapv3.SearchRequest) (*ldapv3.SearchResult, error) {
	result, err := s.session.Search(request)
	if errors.Is(err, ldapv3.ErrSizeLimitExceeded) {
		s.session.spoiled = true // with entries that nobody will read
	}
	return result, err
}

// exceeded tells whether the server has more than was asked for: because it said so, or because it went on.
func exceeded(err error) bool {
	return ldapv3.IsErrorWithCode(err, ldapv3.LDAPResultSizeLimitExceeded) || errors.Is(err, ldapv3.ErrSizeLimitExceeded)
}

func (s *search) request(base string, scope int, filter string, size int) *ldapv3.SearchRequest {
	request := ldapv3.NewSearchRequest(base, scope, ldapv3.NeverDerefAliases, size, s.seconds, false, filter, s.attributes(), nil)
	request.EnforceSizeLimit = true
	return request
}

// seconds is how long the server shall try, so that it does not go on when nobody listens any more.
func seconds(ctx context.Context) int {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, int(math.Ceil(time.Until(deadline).Seconds())))
}

func (s *search) attributes() []string {
	wanted := []string{s.config.UserAttribute}
	for _, name := range []string{s.config.DisplayNameAttribute, s.config.EmailAttribute, s.config.UIDAttribute} {
		if name != "" {
			wanted = append(wanted, name)
		}
	}
	return wanted
}
