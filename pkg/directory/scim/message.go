package scim

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
)

// Schemas of messages (RFC 7644 section 8.2).
const (
	listSchema  = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	errorSchema = "urn:ietf:params:scim:api:messages:2.0:Error"
)

// listResponse is the answer to a search (RFC 7644 section 3.4.2).
type listResponse struct {
	Schemas      []string `json:"schemas"`
	TotalResults *int     `json:"totalResults"`
	Resources    []user   `json:"Resources"`
}

// check refuses what is no list of the users that follow the first that were seen.
func (l *listResponse) check(seen int) error {
	switch {
	case !slices.Contains(l.Schemas, listSchema):
		return rest.Garbage("it is no ListResponse of SCIM 2.0")
	case l.TotalResults == nil || *l.TotalResults < len(l.Resources):
		return rest.Garbage("it does not tell how many users there are")
	case len(l.Resources) == 0 && seen < *l.TotalResults:
		return rest.Garbage("it announces more users than it shows")
	}
	for i := range l.Resources {
		if l.Resources[i].ID == "" || l.Resources[i].UserName == "" {
			return rest.Garbage("a user has no id or no userName")
		}
	}
	return nil
}

// user is what matters here of the resource of RFC 7643 section 4.1.
type user struct {
	ID          string `json:"id"`
	ExternalID  string `json:"externalId"`
	UserName    string `json:"userName"`
	Active      *bool  `json:"active"`
	DisplayName string `json:"displayName"`
	Name        struct {
		Formatted  string `json:"formatted"`
		GivenName  string `json:"givenName"`
		FamilyName string `json:"familyName"`
	} `json:"name"`
	Emails []struct {
		Value   string `json:"value"`
		Primary bool   `json:"primary"`
	} `json:"emails"`
}

func id(u *user) string { return u.ID }

func (u *user) disabled(requireActive bool) bool {
	if u.Active == nil {
		return requireActive
	}
	return !*u.Active
}

func (u *user) addresses() []string {
	var all []string
	for _, email := range u.Emails {
		all = append(all, email.Value)
	}
	return all
}

func (u *user) person() *directory.Person {
	person := &directory.Person{UID: u.ID, DisplayName: u.DisplayName}
	for _, other := range []string{u.Name.Formatted, strings.TrimSpace(u.Name.GivenName + " " + u.Name.FamilyName)} {
		if person.DisplayName == "" {
			person.DisplayName = other
		}
	}
	for _, email := range u.Emails {
		if person.Email == "" || email.Primary {
			person.Email = email.Value
		}
	}
	return person
}

// scimTypes are those of RFC 7644 section 3.12. Whatever else an error says stays unsaid.
var scimTypes = []string{
	"invalidFilter", "tooMany", "uniqueness", "mutability", "invalidSyntax", "invalidPath", "noTarget", "invalidValue", "invalidVers", "sensitive",
}

// scimType is the kind of an error, in parentheses, if its message has one.
func scimType(body []byte) string {
	var message struct {
		Schemas  []string `json:"schemas"`
		ScimType string   `json:"scimType"`
	}
	if json.Unmarshal(body, &message) != nil || !slices.Contains(message.Schemas, errorSchema) || !slices.Contains(scimTypes, message.ScimType) {
		return ""
	}
	return " (" + message.ScimType + ")"
}
