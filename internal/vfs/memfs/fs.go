package memfs

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rwsink/rwsink/internal/vfs"
)

// Op is a kind of operation.
type Op int

// The kinds, one for each method of vfs.FS and vfs.File.
const (
	OpMkdirAll Op = iota
	OpCreate
	OpOpen
	OpReadDir
	OpRename
	OpRemove
	OpSyncDir
	OpWrite
	OpReadAt
	OpSync
	OpTruncate
	OpSize
	OpClose
	NumOps
)

var opNames = [NumOps]string{"mkdir", "create", "open", "readdir", "rename", "remove", "syncdir", "write", "read", "sync", "truncate", "size", "close"}

func (o Op) String() string { return opNames[o] }

// Errors of the machine rather than of the disk.
var (
	ErrPowerCut = errors.New("memfs: the power is cut")
	ErrStale    = errors.New("memfs: the file is of a process that has ended")
)

// FS is the file system. Its root is there from the start.
type FS struct {
	mu       sync.Mutex
	rnd      *rand.Rand
	root     *node
	pending  []change // of names, not yet durable
	epoch    int      // of open files
	capacity int64    // bytes, 0 is no limit

	ops   int // since New
	calls [NumOps]int
	cutAt int // the value of ops with which the power fails, 0 is never
	cut   bool
	fault fault
}

type fault struct {
	op        Op
	from, end int // calls of op that fail: from <= calls < end
	err       error
}

// node is a file or a directory.
type node struct {
	names, durable map[string]*node // a directory's entries as seen and as after a crash; nil for a file
	data, stable   []byte           // a file's bytes as seen and as last synced
	unsynced       []edit           // what leads from stable to data
}

// change is an operation on names; it happens whole or not at all.
type change []entry

// entry sets a name in a directory, or removes it (to is nil).
type entry struct {
	dir  *node
	name string
	to   *node
}

type key struct {
	dir  *node
	name string
}

// New returns an empty file system.
func New(seed uint64) *FS {
	return &FS{rnd: rand.New(rand.NewPCG(seed, 0x6d656d6673)), root: newDir()}
}

func newDir() *node { return &node{names: map[string]*node{}, durable: map[string]*node{}} }

func (n *node) isDir() bool { return n.names != nil }

// Ops returns the number of operations made since New.
func (m *FS) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// Calls returns the number of operations of one kind made since New.
func (m *FS) Calls(op Op) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[op]
}

// CutAfter lets k more operations succeed and the power fail in the one after.
func (m *FS) CutAfter(k int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutAt = m.ops + k + 1
}

// Fail makes times calls of op fail with err, the k-th from now (k from 0) first.
// It takes the place of a Fail before.
func (m *FS) Fail(op Op, k, times int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.calls[op] + k
	m.fault = fault{op: op, from: from, end: from + times, err: err}
}

// SetCapacity bounds the bytes of all files; 0 is no bound.
func (m *FS) SetCapacity(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = n
}

// Kill ends the process: files of before are stale, nothing is lost.
func (m *FS) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.cutAt, m.cut, m.fault = 0, false, fault{}
}

// Crash is a power cut and the start after it: what was durable is there, and of the rest what chance leaves.
func (m *FS) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.cutAt, m.cut, m.fault = 0, false, fault{}
	m.settleNames()
	m.pending = nil
	m.restart(m.root)
}

// settleNames makes a part of the pending changes durable.
func (m *FS) settleNames() {
	keep := [4]float64{0, 1, 0.5, 0.9}[m.rnd.IntN(4)]
	lost := map[key]bool{}
	var left []change
	for _, c := range m.pending {
		skip := m.rnd.Float64() >= keep
		for _, e := range c {
			skip = skip || lost[key{e.dir, e.name}]
		}
		if !skip {
			c.apply()
			continue
		}
		left = append(left, c)
		for _, e := range c {
			lost[key{e.dir, e.name}] = true
		}
	}
	m.pending = left
}

func (c change) apply() {
	for _, e := range c {
		if e.to == nil {
			delete(e.dir.durable, e.name)
		} else {
			e.dir.durable[e.name] = e.to
		}
	}
}

func (m *FS) restart(n *node) {
	if !n.isDir() {
		n.stable = m.settle(n)
		n.data, n.unsynced = bytes.Clone(n.stable), nil
		return
	}
	n.names = maps.Clone(n.durable)
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		m.restart(n.names[name])
	}
}

// Clone returns a copy of what is there, all of it durable.
func (m *FS) Clone(seed uint64) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := New(seed)
	out.root = m.root.clone()
	return out
}

func (n *node) clone() *node {
	if !n.isDir() {
		return &node{data: bytes.Clone(n.data), stable: bytes.Clone(n.data)}
	}
	out := newDir()
	for name, child := range n.names {
		out.names[name] = child.clone()
	}
	out.durable = maps.Clone(out.names)
	return out
}

// enter counts an operation. fail says that it has to fail with the error; then
// it may have happened all the same, as chance has it.
func (m *FS) enter(op Op) (fail error) {
	if m.cut {
		return ErrPowerCut
	}
	m.ops++
	n := m.calls[op]
	m.calls[op]++
	if m.ops == m.cutAt {
		m.cut = true
		return ErrPowerCut
	}
	if f := m.fault; f.err != nil && f.op == op && n >= f.from && n < f.end {
		return f.err
	}
	return nil
}

// skip says whether a failing operation has had no effect.
func (m *FS) skip(wasCut bool, fail error) bool { return wasCut || fail != nil && m.rnd.IntN(2) == 0 }

// walk finds the directory of a path and the last name in it; the root has the name ".".
func (m *FS) walk(name string) (*node, string, error) {
	name = strings.TrimPrefix(path.Clean(name), "/")
	if name == "" || name == "." {
		return m.root, ".", nil
	}
	parts := strings.Split(name, "/")
	dir := m.root
	for _, part := range parts[:len(parts)-1] {
		if dir = dir.names[part]; dir == nil {
			return nil, "", fs.ErrNotExist
		}
		if !dir.isDir() {
			return nil, "", syscall.ENOTDIR
		}
	}
	return dir, parts[len(parts)-1], nil
}

func (m *FS) find(name string) (*node, error) {
	dir, last, err := m.walk(name)
	if err != nil {
		return nil, err
	}
	if last == "." {
		return dir, nil
	}
	if n := dir.names[last]; n != nil {
		return n, nil
	}
	return nil, fs.ErrNotExist
}

// set makes a change of names.
func (m *FS) set(c change) {
	for _, e := range c {
		if e.to == nil {
			delete(e.dir.names, e.name)
		} else {
			e.dir.names[e.name] = e.to
		}
	}
	m.pending = append(m.pending, c)
}

func pathError(op Op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op.String(), Path: name, Err: err}
}

// do runs one operation on names under the lock; act has its effect.
func (m *FS) do(op Op, name string, act func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	wasCut := m.cut
	fail := m.enter(op)
	if fail != nil && m.skip(wasCut, fail) {
		return pathError(op, name, fail)
	}
	if err := act(); err != nil && fail == nil {
		fail = err
	}
	return pathError(op, name, fail)
}

// MkdirAll makes a directory and those above it.
func (m *FS) MkdirAll(name string) error {
	return m.do(OpMkdirAll, name, func() error {
		dir := m.root
		for part := range strings.SplitSeq(strings.TrimPrefix(path.Clean(name), "/"), "/") {
			if part == "" || part == "." {
				continue
			}
			next := dir.names[part]
			if next == nil {
				next = newDir()
				m.set(change{{dir, part, next}})
			}
			if !next.isDir() {
				return syscall.ENOTDIR
			}
			dir = next
		}
		return nil
	})
}

// Create makes a new file.
func (m *FS) Create(name string) (vfs.File, error) {
	var f *file
	err := m.do(OpCreate, name, func() error {
		dir, last, err := m.walk(name)
		if err != nil {
			return err
		}
		if last == "." || dir.names[last] != nil {
			return fs.ErrExist
		}
		n := &node{}
		m.set(change{{dir, last, n}})
		f = &file{m: m, n: n, name: name, epoch: m.epoch}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open opens an existing file.
func (m *FS) Open(name string) (vfs.File, error) {
	var f *file
	err := m.do(OpOpen, name, func() error {
		n, err := m.find(name)
		if err != nil {
			return err
		}
		if n.isDir() {
			return syscall.EISDIR
		}
		f = &file{m: m, n: n, name: name, epoch: m.epoch}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ReadDir returns the names in a directory, sorted.
func (m *FS) ReadDir(name string) (names []string, err error) {
	err = m.do(OpReadDir, name, func() error {
		n, err := m.find(name)
		if err != nil {
			return err
		}
		if !n.isDir() {
			return syscall.ENOTDIR
		}
		names = slices.Sorted(maps.Keys(n.names))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Rename renames a file or directory; an existing file of the new name is replaced.
func (m *FS) Rename(from, to string) error {
	return m.do(OpRename, from, func() error {
		fromDir, fromName, err := m.walk(from)
		if err != nil {
			return err
		}
		toDir, toName, err := m.walk(to)
		if err != nil {
			return err
		}
		n, old := fromDir.names[fromName], toDir.names[toName]
		switch {
		case n == nil:
			return fs.ErrNotExist
		case toName == "." || old != nil && old.isDir():
			return fs.ErrExist
		case n == old:
			return nil
		case n.holds(toDir):
			return syscall.EINVAL
		case old != nil && n.isDir():
			return syscall.ENOTDIR
		}
		m.set(change{{fromDir, fromName, nil}, {toDir, toName, n}})
		return nil
	})
}

// holds says whether dir is n or lies below it.
func (n *node) holds(dir *node) bool {
	if n == dir {
		return true
	}
	for _, child := range n.names {
		if child.holds(dir) {
			return true
		}
	}
	return false
}

// Remove removes a file or an empty directory.
func (m *FS) Remove(name string) error {
	return m.do(OpRemove, name, func() error {
		dir, last, err := m.walk(name)
		if err != nil {
			return err
		}
		n := dir.names[last]
		switch {
		case last == ".":
			return syscall.EBUSY
		case n == nil:
			return fs.ErrNotExist
		case n.isDir() && len(n.names) > 0:
			return syscall.ENOTEMPTY
		}
		m.set(change{{dir, last, nil}})
		return nil
	})
}

// SyncDir makes what was created, renamed and removed in a directory durable, and
// the changes elsewhere that these build on. One that fails has done a part.
func (m *FS) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	wasCut := m.cut
	if fail := m.enter(OpSyncDir); fail != nil {
		if !wasCut {
			m.settleNames()
		}
		return pathError(OpSyncDir, name, fail)
	}
	dir, err := m.find(name)
	if err != nil {
		return pathError(OpSyncDir, name, err)
	}
	needed := map[key]bool{}
	apply := make([]bool, len(m.pending))
	for i := len(m.pending) - 1; i >= 0; i-- {
		for _, e := range m.pending[i] {
			apply[i] = apply[i] || e.dir == dir || needed[key{e.dir, e.name}]
		}
		if apply[i] {
			for _, e := range m.pending[i] {
				needed[key{e.dir, e.name}] = true
			}
		}
	}
	var left []change
	for i, c := range m.pending {
		if apply[i] {
			c.apply()
		} else {
			left = append(left, c)
		}
	}
	m.pending = left
	return nil
}
