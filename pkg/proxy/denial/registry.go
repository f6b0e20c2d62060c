package denial

import "net/http"

// registryErrors is the error document of the OCI distribution specification, section "Error Codes". Clients print code
// and message; a detail would be printed as a Go map, so all is in the message.
type registryErrors struct {
	Errors []registryError `json:"errors"`
}

type registryError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (d *Denial) registry() []byte {
	return encode(registryErrors{Errors: []registryError{{Code: registryCode(StatusCode(d.Reason)), Message: d.sentence()}}})
}

func registryCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "UNSUPPORTED"
	case http.StatusUnauthorized:
		return "UNAUTHORIZED"
	case http.StatusForbidden:
		return "DENIED"
	case http.StatusNotFound:
		return "NAME_UNKNOWN"
	}
	return "UNAVAILABLE"
}
