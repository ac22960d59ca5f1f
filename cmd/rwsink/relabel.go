package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v2"
)

// loadRelabel reads the file of --write.relabel-config: a YAML list, each entry as
// in Prometheus's relabel_configs. A field that is not known is an error. No file
// is no rule.
func loadRelabel(file string) ([]*relabel.Config, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read relabel rules: %w", err)
	}
	rules, err := parseRelabel(text)
	if err != nil {
		return nil, fmt.Errorf("relabel rules %s: %w", file, err)
	}
	return rules, nil
}

func parseRelabel(text []byte) ([]*relabel.Config, error) {
	var rules []*relabel.Config
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.SetStrict(true)
	if err := dec.Decode(&rules); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for i, r := range rules {
		if r == nil {
			return nil, fmt.Errorf("rule %d is empty", i+1)
		}
		if err := r.Validate(model.UTF8Validation); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return rules, nil
}
