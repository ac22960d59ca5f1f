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
// in Prometheus's relabel_configs. A field that is not known is an error, and so
// is a file without a list. No file is no rule.
func loadRelabel(file string) (rules []*relabel.Config, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err == nil {
		rules, err = parseRelabel(text)
	}
	if err != nil {
		return nil, fmt.Errorf("--write.relabel-config=%s: %w", file, err)
	}
	return rules, nil
}

func parseRelabel(text []byte) ([]*relabel.Config, error) {
	var list []relabelRule
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.SetStrict(true)
	err := dec.Decode(&list)
	switch {
	case errors.As(err, new(*yaml.TypeError)): // a rule takes anything for now
		return nil, errors.New("want a list of rules, without a key above it")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case list == nil:
		return nil, errors.New("no rule in it: leave out the flag, or write an empty list, []")
	}
	var rules []*relabel.Config
	for i, r := range list {
		if r.decode == nil {
			return nil, fmt.Errorf("rule %d is empty", i+1)
		}
		var c relabel.Config
		if err := r.decode(&c); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		if err := c.Validate(model.UTF8Validation); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		rules = append(rules, &c)
	}
	return rules, nil
}

// relabelRule is a rule that is not decoded yet, so that an error can say which it is.
type relabelRule struct{ decode func(any) error }

// UnmarshalYAML keeps how to decode the rule.
func (r *relabelRule) UnmarshalYAML(decode func(any) error) error {
	r.decode = decode
	return nil
}
