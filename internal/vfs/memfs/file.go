package memfs

import (
	"bytes"
	"io"
	"io/fs"
	"syscall"
)

// file is an open file.
type file struct {
	m      *FS
	n      *node
	name   string
	epoch  int
	closed bool
}

// edit is a write at off, or with data nil a truncation to off.
type edit struct {
	off  int64
	data []byte
}

// settle returns what of a file is on the disk: stable and a part of the unsynced edits.
func (m *FS) settle(n *node) []byte {
	out := bytes.Clone(n.stable)
	keep := [4]float64{0, 1, 0.5, 0.8}[m.rnd.IntN(4)]
	sector := [4]int64{1, 16, 64, 512}[m.rnd.IntN(4)]
	prefix := m.rnd.IntN(2) == 0 // of a write that is torn: its start, or any of its sectors
	for _, e := range n.unsynced {
		whole := m.rnd.Float64() < keep
		if whole {
			out = e.apply(out)
			continue
		}
		if e.data == nil {
			continue
		}
		switch length := int64(len(e.data)); {
		case m.rnd.IntN(2) == 0:
		case prefix:
			out = writeAt(out, e.off, e.data[:m.rnd.Int64N(length+1)])
		default:
			for at := int64(0); at < length; at += sector {
				if m.rnd.IntN(2) == 0 {
					out = writeAt(out, e.off+at, e.data[at:min(at+sector, length)])
				}
			}
		}
		if size := e.off + int64(len(e.data)); m.rnd.IntN(4) == 0 && size > int64(len(out)) {
			out = resize(out, size) // the length is there, the bytes are not
		}
	}
	return out
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func writeAt(b []byte, off int64, data []byte) []byte {
	if size := off + int64(len(data)); size > int64(len(b)) {
		b = resize(b, size)
	}
	copy(b[off:], data)
	return b
}

func (e edit) apply(b []byte) []byte {
	if e.data == nil {
		return resize(b, e.off)
	}
	return writeAt(b, e.off, e.data)
}

func (n *node) edit(e edit) {
	n.unsynced = append(n.unsynced, e)
	n.data = e.apply(n.data)
}

// used returns the bytes of all files that have a name.
func (n *node) used() int64 {
	sum := int64(len(n.data))
	for _, child := range n.names {
		sum += child.used()
	}
	return sum
}

// do runs one operation on the file under the lock: act has its effect and is
// told whether to fail.
func (f *file) do(op Op, act func(fail error) error) error {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	wasCut := m.cut
	fail := m.enter(op)
	switch {
	case wasCut:
		return pathError(op, f.name, fail)
	case f.epoch != m.epoch:
		return pathError(op, f.name, ErrStale)
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	}
	err := act(fail)
	if fail != nil {
		err = fail
	}
	if err == io.EOF {
		return err
	}
	return pathError(op, f.name, err)
}

// Write appends. One that fails has written a part.
func (f *file) Write(p []byte) (n int, err error) {
	err = f.do(OpWrite, func(fail error) error {
		n = len(p)
		if fail != nil {
			n = f.m.rnd.IntN(n + 1)
		} else if c := f.m.capacity; c > 0 {
			if room := c - f.m.root.used(); int64(n) > room {
				n, fail = int(max(room, 0)), syscall.ENOSPC
			}
		}
		if n > 0 {
			f.n.edit(edit{int64(len(f.n.data)), bytes.Clone(p[:n])})
		}
		return fail
	})
	return n, err
}

func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.do(OpReadAt, func(fail error) error {
		if fail != nil {
			return fail
		}
		if off < int64(len(f.n.data)) {
			n = copy(p, f.n.data[off:])
		}
		if n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

// Sync makes the file durable. One that fails has lost a part for good.
func (f *file) Sync() error {
	return f.do(OpSync, func(fail error) error {
		switch {
		case fail == ErrPowerCut: // it has not come back: what is unsynced stays so, for Crash to settle or Kill to keep
			return fail
		case fail != nil:
			f.n.stable = f.m.settle(f.n)
		default:
			for _, e := range f.n.unsynced {
				f.n.stable = e.apply(f.n.stable)
			}
		}
		f.n.unsynced = nil
		return fail
	})
}

func (f *file) Truncate(size int64) error {
	return f.do(OpTruncate, func(fail error) error {
		if fail == nil || f.m.rnd.IntN(2) == 0 {
			f.n.edit(edit{off: size})
		}
		return fail
	})
}

func (f *file) Size() (size int64, err error) {
	err = f.do(OpSize, func(fail error) error {
		size = int64(len(f.n.data))
		return fail
	})
	return size, err
}

// Close closes the file, even where it fails.
func (f *file) Close() error {
	return f.do(OpClose, func(fail error) error {
		f.closed = true
		return fail
	})
}

// ReadFile returns the bytes of a file. It is no operation of the sweep.
func (m *FS) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return nil, pathError(OpOpen, name, err)
	}
	return bytes.Clone(n.data), nil
}

// WriteFile sets the bytes of a file, durable at once; it is made if it is not
// there. It is no operation of the sweep.
func (m *FS) WriteFile(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, last, err := m.walk(name)
	if err != nil {
		return pathError(OpCreate, name, err)
	}
	n := dir.names[last]
	if n == nil {
		n = &node{}
		dir.names[last], dir.durable[last] = n, n
	}
	n.data, n.stable, n.unsynced = bytes.Clone(data), bytes.Clone(data), nil
	return nil
}
