package receiver

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// version is a version of the protocol.
type version uint8

const (
	versionNone version = iota // not told, or not one that there is
	version1
	version2
)

func (v version) String() string { return [...]string{"none", "1.0", "2.0"}[v] }

// The media type and the schemas that its parameter "proto" may name. Other
// types that mean protobuf, such as application/vnd.google.protobuf, belong to
// other protocols: they are answered 415 and told what is accepted.
const (
	mediaType = "application/x-protobuf"
	accepted  = mediaType + " and " + mediaType + ";proto=" + msgRequest1 + " (1.0), " + mediaType + ";proto=" + msgRequest2 + " (2.0)"
)

// mediaError says why a request's headers are not taken.
type mediaError struct{ text string }

func (e *mediaError) Error() string { return e.text }

// negotiate reads the version from the headers of a request. The version is
// told as far as it is known even with an error. The version header of the
// protocol is of no account: the schema is what Content-Type says.
func negotiate(h http.Header) (version, error) {
	v, err := contentVersion(h.Values("Content-Type"))
	if e := checkEncoding(h.Values("Content-Encoding")); e != nil {
		return v, e
	}
	return v, err
}

// checkEncoding takes snappy in any case, and nothing at all, which some senders
// mean by it.
func checkEncoding(values []string) error {
	coding := strings.Trim(strings.Join(values, ","), " \t")
	if coding == "" || strings.EqualFold(coding, "snappy") {
		return nil
	}
	return &mediaError{fmt.Sprintf("Content-Encoding %.100q is not supported, only snappy (block format)", coding)}
}

// contentVersion parses a Content-Type: case, spaces and quotes as RFC 9110 has
// them. None at all means 1.0; parameters other than proto say nothing.
func contentVersion(values []string) (version, error) {
	if len(values) == 0 || len(values) == 1 && strings.Trim(values[0], " \t") == "" {
		return version1, nil
	}
	if len(values) > 1 {
		return versionNone, unsupportedType(strings.Join(values, ", "))
	}
	switch values[0] { // the usual forms, without the parser's garbage
	case mediaType:
		return version1, nil
	case mediaType + ";proto=" + msgRequest2:
		return version2, nil
	}
	typ, params, err := mime.ParseMediaType(values[0])
	if err != nil || typ != mediaType {
		return versionNone, unsupportedType(values[0])
	}
	proto, given := params["proto"]
	switch {
	case !given || proto == msgRequest1:
		return version1, nil
	case proto == msgRequest2:
		return version2, nil
	}
	return versionNone, unsupportedType(values[0])
}

func unsupportedType(value string) error {
	return &mediaError{fmt.Sprintf("Content-Type %.200q is not supported, accepted are %s", value, accepted)}
}
