package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rwsink/rwsink/head"
	"github.com/rwsink/rwsink/internal/vfs"
	"github.com/rwsink/rwsink/store/block"
)

// A snapshot is a data directory of its own, made of hard links: nothing in a
// block is ever changed in place. It is written under a name that ends in .tmp,
// made durable, and renamed; what a killed process left of one goes at the next start.

// Snapshot makes a snapshot in snapshots/<name> and returns its name: all blocks,
// and with them, unless skipHead, everything that was acknowledged before, for
// which the head is flushed. The remembered deletes are in it; metadata and
// exemplars, which no block holds, are not. It returns early when ctx ends or the
// store is closed.
func (s *Store) Snapshot(ctx context.Context, skipHead bool) (name string, err error) {
	ctx, cancel := s.alive(ctx)
	defer cancel()
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	if !onDisk(s.o.FS) {
		return "", errors.New("snapshot: the blocks are not on disk")
	}
	if err := s.setFaultyAside(); err != nil { // what is sound in them belongs in
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if !skipHead {
		if err := s.flush(ctx, func(head.ContainerInfo) bool { return true }); err != nil {
			return "", fmt.Errorf("snapshot: %w", err)
		}
	}
	name = fmt.Sprintf("%s-%016x", time.Now().UTC().Format("20060102T150405Z0700"), rand.Int64())
	dir := filepath.Join(s.o.Path, snapshotsName, name)
	tmp := dir + vfs.TmpSuffix
	if err := s.link(ctx, tmp); err != nil {
		return "", errors.Join(fmt.Errorf("snapshot: %w", err), block.RemoveDir(s.o.FS, tmp))
	}
	err = s.o.FS.Rename(tmp, dir)
	if err == nil {
		err = s.o.FS.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	s.log.Info("made a snapshot", "dir", dir, "blocks", len(*s.blocks.Load()))
	return name, nil
}

// link fills and syncs the directory of a snapshot. maintenance is held.
func (s *Store) link(ctx context.Context, tmp string) error {
	fs := s.o.FS
	blocks := filepath.Join(tmp, blocksName)
	for _, d := range []string{blocks, filepath.Join(tmp, walName)} {
		if err := fs.MkdirAll(d); err != nil {
			return err
		}
	}
	dirs := []string{blocks, filepath.Join(tmp, walName), tmp, filepath.Dir(tmp), s.o.Path}
	list, err := s.linkBlocks(ctx, blocks)
	if err != nil {
		return err
	}
	id, err := s.Identity()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{idName: id, versionName: layoutVersion} {
		if err := vfs.WriteWhole(fs, filepath.Join(tmp, name), []byte(text+"\n")); err != nil {
			return err
		}
	}
	for _, d := range append(list, dirs...) {
		if err := fs.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
}

// linkBlocks links the files of all blocks, while nothing is deleted of them, and
// returns the directories that it made.
func (s *Store) linkBlocks(ctx context.Context, blocks string) (dirs []string, err error) {
	s.deletes.mu.Lock()
	defer s.deletes.mu.Unlock()
	if err := s.saveDeletes(); err != nil {
		return nil, err
	}
	for _, b := range *s.blocks.Load() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		made, err := s.linkDir(b.Dir(), filepath.Join(blocks, b.Name()))
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, made...)
	}
	err = s.linkFile(filepath.Join(s.blocksDir(), rememberedName), filepath.Join(blocks, rememberedName))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return dirs, err
}

// linkDir links what is in a directory, those below it included.
func (s *Store) linkDir(from, to string) (made []string, err error) {
	if err := s.o.FS.MkdirAll(to); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(to, e.Name())
		switch {
		case e.IsDir():
			var below []string
			below, err = s.linkDir(filepath.Join(from, e.Name()), path)
			made = append(made, below...)
		case !strings.HasSuffix(e.Name(), vfs.TmpSuffix):
			err = s.linkFile(filepath.Join(from, e.Name()), path)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(made, to), nil
}

// linkFile makes a hard link. Only files of the operating system have those.
func (s *Store) linkFile(from, to string) error {
	return s.o.FS.(interface{ Link(from, to string) error }).Link(from, to)
}

// removeUnfinishedSnapshots removes what a killed process left of snapshots.
func (s *Store) removeUnfinishedSnapshots() error {
	if !onDisk(s.o.FS) {
		return nil
	}
	dir := filepath.Join(s.o.Path, snapshotsName)
	names, err := s.o.FS.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the snapshots: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, vfs.TmpSuffix) {
			s.log.Info("removing a snapshot that was not finished", "name", name)
			if err := block.RemoveDir(s.o.FS, filepath.Join(dir, name)); err != nil {
				s.log.Error("it could not be removed; the next start tries it again", "err", err)
			}
		}
	}
	return nil
}
