package request

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// ownWrites remembers which version of each request this process wrote last. A check that was just made announces itself
// before the status that names it does: until then the cached request would ask for the same check again.
type ownWrites struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

func newOwnWrites() *ownWrites { return &ownWrites{versions: map[types.UID]string{}} }

func (o *ownWrites) wrote(uid types.UID, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.versions[uid] = version
}

// lags tells whether a cached request is older than what was written. Its next version comes by itself. Versions that
// cannot be compared do not count: then a conflict tells.
func (o *ownWrites) lags(seen *approvalv1alpha1.ResourceCheckRequest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	written, ok := o.versions[seen.UID]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, written)
	if err == nil && order < 0 {
		return true
	}
	delete(o.versions, seen.UID)
	return false
}

func (o *ownWrites) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.versions, uid)
}
