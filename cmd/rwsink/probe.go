package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// probeTimeout bounds one probe, connection included.
const probeTimeout = 5 * time.Second

// probe gets url once: its answer is printed, and anything but 200 is an error. A
// certificate is not checked: it is made for the name that others call rwsink by,
// and the probe asks on this machine and tells nothing.
func probe(w io.Writer, url string) error {
	client := http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
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
