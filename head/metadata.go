package head

import (
	"maps"
	"sync"

	"github.com/prometheus/common/model"

	"github.com/rwsink/rwsink/wal/record"
)

// Metadata is what is known of one metric family.
type Metadata struct {
	Type       model.MetricType
	Unit, Help string
}

// metadataTable maps families to what is known of them, latest wins.
type metadataTable struct {
	mu       sync.RWMutex
	byFamily map[string]Metadata
}

func (m *metadataTable) knows(family string, typ model.MetricType, unit, help string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	have, ok := m.byFamily[family]
	return ok && have == Metadata{typ, unit, help}
}

// room says whether family is there or there is room for one more beside the pending ones.
func (m *metadataTable) room(family string, pending int) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, ok := m.byFamily[family]
	return ok || len(m.byFamily)+pending < maxFamilies
}

func (m *metadataTable) apply(list []record.Metadata) {
	if len(list) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range list {
		m.byFamily[r.Family] = Metadata{r.Type, r.Unit, r.Help}
	}
}

// Metadata returns what is known, by metric family.
func (h *Head) Metadata() map[string]Metadata {
	h.metadata.mu.RLock()
	defer h.metadata.mu.RUnlock()
	return maps.Clone(h.metadata.byFamily)
}
