package receiver

import "github.com/rwsink/rwsink/head"

// judge turns what was refused into the error that answers it, or nil.
func (h *handler) judge(_ version, refused *head.Refusals) error {
	if !refused.Any() {
		return nil
	}
	if h.RefusedStatus < 300 {
		h.Metrics.Forgiven()
	}
	return &refusedError{refused}
}
