package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// probeTimeout bounds one probe, connection included.
const probeTimeout = 5 * time.Second

// readyPath is what is asked for where the URL names no path.
const readyPath = "/-/ready"

// probe gets url once: its answer is printed, and anything but 200 is an error. A
// certificate is not checked: it is made for the name that others call rwsink by,
// and the probe asks on this machine and tells nothing.
// A password in the URL appears in no error.
func probe(w io.Writer, address string) error {
	target, err := url.Parse(address)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		return errors.New("the URL to probe cannot be parsed: want http://HOST:PORT, or https") // the parser's own error quotes it
	}
	if target.Path == "" {
		target.Path = readyPath
	}
	client := http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	resp, err := client.Get(target.String())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", target.Redacted(), err)
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", target.Redacted(), resp.Status, text)
	}
	_, err = fmt.Fprintln(w, text)
	return err
}
