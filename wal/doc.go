// Package wal is rwsink's log: the one place where an accepted batch becomes durable.
package wal
