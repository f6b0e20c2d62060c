package rest

import (
	"fmt"
	"net/url"
)

// CheckURL returns nil, or one sentence about the configuration's field of that name, whose value must be the address of
// an HTTPS service without a query; http only where plaintext is accepted.
func CheckURL(field, address string, plaintext bool) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
		return fmt.Errorf("%s must be an address like https://host/path, without user, query and fragment", field)
	}
	switch {
	case parsed.Scheme == "https", parsed.Scheme == "http" && plaintext:
		return nil
	case parsed.Scheme == "http":
		return fmt.Errorf("%s is http://, which sends secrets readable for everybody on the way: use https://, or set insecurePlaintext if you accept that", field)
	}
	return fmt.Errorf("%s begins with %q: it must be https://", field, parsed.Scheme)
}
