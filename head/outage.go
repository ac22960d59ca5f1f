package head

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/rwsink/rwsink/internal/seldom"
)

// outage is what keeps the log from storing anything, since the first group that it
// refused until one is stored. The committer owns it; anybody may read why.
type outage struct {
	why  atomic.Pointer[string] // of the newest group; nil when that was stored
	gate seldom.Gate
}

// note notes what became of a group: err, or nil.
func (o *outage) note(log *slog.Logger, what string, err error) {
	if err == nil {
		if o.why.Load() != nil {
			o.why.Store(nil)
			log.Info("writes are stored again", "not_logged_before", o.gate.Open())
		}
		return
	}
	why := fmt.Sprintf("nothing is stored, writes are answered 503 and tried again: %v", err)
	o.why.Store(&why)
	if held, ok := o.gate.Pass(); ok {
		log.Warn(what, "err", err, "not_logged_before", held)
	}
}
