package receiver

import "github.com/rwsink/rwsink/head"

// judge counts what was refused and turns it into the error that answers it, or
// nil when there is nothing that a sender has to know.
func (h *handler) judge(v version, refused *head.Refusals) error {
	if !refused.Any() {
		return nil
	}
	tell := false
	refused.Each(func(n int, first *head.Refusal) {
		h.Metrics.Refused(first.Item.String(), first.Reason, n)
		tell = tell || !countedOnly(v, first.Reason)
	})
	if !tell || h.RefusedStatus < 300 {
		h.Metrics.Forgiven()
	}
	if !tell {
		return nil
	}
	return &refusedError{refused}
}

// countedOnly says that a refusal alone does not fail a request: that exemplars
// are switched off is the operator's wish, and senders of 1.0 do not expect to
// be told that exemplars came out of order.
func countedOnly(v version, reason string) bool {
	return reason == head.ReasonExemplarsOff || v == version1 && reason == head.ReasonExemplarOrder
}
