package head

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// warnEvery bounds how often it is logged that nothing is stored.
const warnEvery = 10 * time.Second

// outage is what keeps the log from storing anything, since the first group that it
// refused until one is stored. The committer owns it; anybody may read why.
type outage struct {
	why    atomic.Pointer[string] // of the newest group; nil when that was stored
	logged time.Time              // by the monotonic clock
	quiet  int                    // groups refused since that were not logged
}

// note notes what became of a group: err, or nil. At most one refusal in warnEvery
// is logged, with the number of those before it that were not.
func (o *outage) note(log *slog.Logger, what string, err error) {
	if err == nil {
		if o.why.Load() != nil {
			o.why.Store(nil)
			log.Info("writes are stored again", "not_logged_before", o.quiet)
			o.logged, o.quiet = time.Time{}, 0
		}
		return
	}
	why := fmt.Sprintf("nothing is stored, writes are answered 503 and tried again: %v", err)
	o.why.Store(&why)
	if now := time.Now(); o.logged.IsZero() || now.Sub(o.logged) >= warnEvery {
		log.Warn(what, "err", err, "not_logged_before", o.quiet)
		o.logged, o.quiet = now, 0
		return
	}
	o.quiet++
}
