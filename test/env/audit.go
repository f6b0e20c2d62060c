package env

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// maxAuditLine bounds one audit event; request and response bodies are limited to 3 MiB each.
const maxAuditLine = 8 << 20

// AuditEvents returns what the API server has recorded so far, oldest first; a request whose answer
// has been seen is among them. It needs WithAudit.
func (c *Cluster) AuditEvents() (events []auditv1.Event, err error) {
	file, err := os.Open(c.layout.auditLog())
	if err != nil {
		return nil, fmt.Errorf("the cluster keeps no audit log; start it with WithAudit: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, lines.Err()
}
