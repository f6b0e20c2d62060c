package proxy

import (
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// ids names requests: unique among all proxies, and in order of arrival within one.
type ids struct {
	prefix string
	next   atomic.Uint64
}

func newIDs() *ids { return &ids{prefix: rand.Text()[:12] + "-"} }

func (i *ids) New() string {
	var digits [20]byte
	return i.prefix + string(strconv.AppendUint(digits[:0], i.next.Add(1), 36))
}
