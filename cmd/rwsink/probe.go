package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// probeTimeout bounds one probe, connection included.
const probeTimeout = 5 * time.Second

// probe gets url once: its answer is printed, and anything but 200 is an error.
func probe(w io.Writer, url string) error {
	client := http.Client{Timeout: probeTimeout}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, text)
	}
	_, err = fmt.Fprintln(w, text)
	return err
}
