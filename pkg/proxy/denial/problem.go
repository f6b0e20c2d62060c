package denial

import (
	"encoding/json"
	"net/http"

	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// Document is the problem document (RFC 9457) of a denial, and what /-/explain says of a verdict. Texts of others in it
// are bounded and cannot draw.
type Document struct {
	// Title is the status in words, Status the HTTP status that the request gets.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	// ID is the access log's id.
	ID string `json:"id"`
	// Request is the namespace/name of the request for approval.
	Request    string                      `json:"request,omitempty"`
	WaitingFor []duckv1alpha1.CheckWaiting `json:"waitingFor,omitempty"`
	// Ask is the complete command that asks for approval.
	Ask    string `json:"ask,omitempty"`
	SeenAs string `json:"seenAs,omitempty"`
}

// Document is what every field of the denial says.
func (d *Denial) Document() Document {
	code := StatusCode(d.Reason)
	return Document{
		Title:      http.StatusText(code),
		Status:     code,
		Reason:     d.Reason,
		Detail:     plaintext.Line(d.Detail, maxDetail),
		ID:         d.ID,
		Request:    plaintext.Line(d.Request, maxName),
		WaitingFor: shownWaiting(d.WaitingFor),
		Ask:        d.Ask,
		SeenAs:     plaintext.Line(d.SeenAs, maxName),
	}
}

func (d *Denial) problem() []byte { return encode(d.Document()) }

func shownWaiting(waiting []duckv1alpha1.CheckWaiting) []duckv1alpha1.CheckWaiting {
	shown := make([]duckv1alpha1.CheckWaiting, 0, len(waiting))
	for _, w := range waiting {
		w.Name = plaintext.Line(w.Name, maxName)
		shown = append(shown, w)
	}
	return shown
}

// encode cannot fail: the documents hold strings and numbers only.
func encode(document any) []byte {
	body, err := json.Marshal(document)
	if err != nil {
		return []byte("{}")
	}
	return append(body, '\n')
}
