package receiver

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestVarintReadersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v") >> rapid.IntRange(0, 63).Draw(t, "shift")
		b := append(binary.AppendUvarint(nil, v), rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "tail")...)
		got, next := uvarint(b, 0)
		want, n := binary.Uvarint(b)
		if got != want || next != n {
			t.Fatalf("uvarint of %x: got %d, %d, want %d, %d", b, got, next, want, n)
		}
		got, next = varint8(binary.LittleEndian.Uint64(b))
		if n > 8 {
			want, n = 0, 0
		}
		if got != want || next != n {
			t.Fatalf("varint8 of %x: got %d, %d, want %d, %d", b, got, next, want, n)
		}
	})
}

func TestSkipAndFaults(t *testing.T) {
	ten := strings.Repeat("\xff", 10)
	tests := []struct {
		name string
		b    string
		want int
	}{
		{"varint", "\x78\x05", 2},
		{"varint of ten bytes", "\x78" + strings.Repeat("\xff", 9) + "\x01", 11},
		{"varint of eleven", "\x78" + ten + "\x01", faultVarint},
		{"varint cut", "\x78\xff", faultTruncated},
		{"fixed64", "\x79" + "12345678", 9},
		{"fixed64 cut", "\x79" + "1234567", faultTruncated},
		{"fixed32", "\x7d" + "1234", 5},
		{"fixed32 cut", "\x7d" + "123", faultTruncated},
		{"bytes", "\x7a\x03abc", 5},
		{"bytes cut", "\x7a\x04abc", faultLength},
		{"bytes of 2^63", "\x7a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01abc", faultLength},
		{"group", "\x7b\x78\x05\x7c", 4},
		{"group in a group", "\x7b\x73\x78\x05\x74\x7c", 6},
		{"group not closed", "\x7b\x78\x05", faultTruncated},
		{"group closed only", "\x7c", faultGroup},
		{"many groups opened", strings.Repeat("\x7b", 100_000), faultTruncated},
		{"field 0 in a group", "\x7b\x00\x05\x7c", faultTag},
		{"wire type 6", "\x7e", faultIllegalType},
		{"wire type 7", "\x7f", faultIllegalType},
		{"field 0", "\x00\x00", faultTag},
		{"field beyond 29 bits", string(rawTag(1<<29, wtVarint)) + "\x00", faultTag},
		{"largest field", string(rawTag(maxFieldNumber, wtVarint)) + "\x00", 6},
		{"tag cut", "\xff", faultTruncated},
		{"nothing", "", faultTruncated},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, wt, p := tag([]byte(test.b), 0)
			if got := skip([]byte(test.b), p, wt); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestUnzigzag(t *testing.T) {
	for v, want := range map[uint64]int64{0: 0, 1: -1, 2: 1, math.MaxUint64: math.MinInt64, math.MaxUint64 - 1: math.MaxInt64} {
		if got := unzigzag(v); got != want {
			t.Errorf("unzigzag(%d): got %d, want %d", v, got, want)
		}
	}
}

// TestWireErrorsTellWhere damages one place of a message each and expects the
// error to name message, field and offset.
func TestWireErrorsTellWhere(t *testing.T) {
	entry := func(parts ...[]byte) []byte { return fieldBytes(1, parts...) }
	good := entry(label1Field("__name__", "m"), sampleField(1, 1, 0))
	n := len(good)
	tests := []struct {
		name   string
		body   []byte
		two    bool
		msg    string
		field  uint32
		offset int
	}{
		{"top level cut", join(good, []byte{0x0a, 9}), false, msgRequest1, 1, n},
		{"top level wire type", join(good, fieldVarint(1, 1)), false, msgRequest1, 1, n},
		{"illegal tag", join(good, []byte{0}), false, msgRequest1, 0, n},
		{"entry", join(good, entry([]byte{0x12, 3, 0})), false, msgSeries1, 2, n + 2},
		{"label's name", join(good, entry(fieldBytes(1, []byte{0x0a, 5, 'x'}))), false, msgLabel, 1, n + 4},
		{"label of a wrong type", join(good, entry(fieldVarint(1, 1))), false, msgSeries1, 1, n + 2},
		{"sample's value", join(good, entry(fieldBytes(2, fieldVarint(1, 1)))), false, msgSample, 1, n + 4},
		{"exemplar", join(good, entry(fieldBytes(3, fieldVarint(2, 1)))), false, msgExemplar1, 2, n + 4},
		{"histogram", join(good, entry(fieldBytes(4, fieldVarint(3, 1)))), false, msgHistogram, 3, n + 4},
		{"span", join(good, entry(fieldBytes(4, fieldBytes(11, fieldString(1, "x"))))), false, msgSpan, 1, n + 6},
		{"packed doubles", join(good, entry(fieldBytes(4, fieldString(16, "1234567")))), false, msgHistogram, 16, n + 4},
		{"metadata", join(good, fieldBytes(3, fieldVarint(2, 1))), false, msgMetadata1, 2, n + 2},
		{"symbol", join(fieldString(4, ""), []byte{0x22, 4, 'a'}), true, msgRequest2, 4, 2},
		{"references", fieldBytes(5, fieldBytes(1, []byte{0xff})), true, msgSeries2, 1, 2},
		{"references of a wrong type", fieldBytes(5, fieldDouble(1, 1)), true, msgSeries2, 1, 2},
		{"metadata 2.0", fieldBytes(5, fieldBytes(5, fieldDouble(3, 1))), true, msgMetadata2, 3, 4},
		{"exemplar 2.0", fieldBytes(5, fieldBytes(4, fieldBytes(1, []byte{0xff}))), true, msgExemplar2, 1, 4},
		{"start of a sample", fieldBytes(5, fieldBytes(2, fieldDouble(3, 1))), true, msgSample, 3, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var err error
			if test.two {
				_, err = collect2(test.body)
			} else {
				_, err = collect1(test.body)
			}
			var w *wireError
			if !errors.As(err, &w) {
				t.Fatalf("got error %v, want a wireError", err)
			}
			if w.message != test.msg || w.field != test.field || w.offset != test.offset {
				t.Errorf("got %s field %d at %d (%v), want %s field %d at %d", w.message, w.field, w.offset, w, test.msg, test.field, test.offset)
			}
			if !strings.Contains(err.Error(), test.msg) || test.field != 0 && !strings.Contains(err.Error(), fieldNames[test.msg][test.field]) {
				t.Errorf("error %q does not name its place", err)
			}
		})
	}
}
