package load

// item is sample k of series i.
type item struct{ i, k uint32 }

// order returns the samples of a client's series in the order in which they
// arrive, and how many of them come after a newer one of their series, and how
// many of these arrive more than Far after their time.
//
// The samples of all series arrive in rounds, Entry samples of each a round. A
// late one takes no part in its own: it comes behind those of the round into which
// its time and a delay fall, and never before a newer sample of its series that is
// not late. The newest sample of a series is never late.
//
// Late samples also scatter the order of the series, which costs every receiver
// something, the one that only counts bytes included: a Control comes in the same
// scattered order of series, with nothing late, and so tells that from lateness.
func (s *Spec) order(client int) (items []item, late, far int) {
	n := (s.Series - client + s.Clients - 1) / s.Clients * s.Samples
	key := make([]uint32, 0, n) // twice the round, 1 more for what is late
	rounds := make([]uint32, s.Samples)
	var heads []int
	for i := client; i < s.Series; i += s.Clients {
		l, f := s.rounds(i, rounds)
		late, far = late+l, far+f
		for _, r := range rounds {
			for int(r) >= len(heads) {
				heads = append(heads, 0)
			}
			heads[r]++
		}
		key = append(key, rounds...)
	}
	at := 0
	for r, count := range heads {
		heads[r], at = at, at+count
	}
	items = make([]item, n)
	for j, r := range key {
		items[heads[r]] = item{uint32(client + j/s.Samples*s.Clients), uint32(j % s.Samples)}
		heads[r]++
	}
	if s.Control {
		s.sortSamples(client, items)
		return items, 0, 0
	}
	return items, late, far
}

// sortSamples gives every series its samples in order of time, at the places that
// the series has.
func (s *Spec) sortSamples(client int, items []item) {
	next := make([]uint32, (s.Series-client+s.Clients-1)/s.Clients)
	for j := range items {
		n := &next[(int(items[j].i)-client)/s.Clients]
		items[j].k = *n
		*n++
	}
}

// rounds fills keys with the place of each sample of series i: twice its round,
// and 1 more if it is late.
func (s *Spec) rounds(i int, keys []uint32) (late, far int) {
	n, interval := len(keys), float64(s.Interval.Milliseconds())
	share := s.Late
	if n > 1 {
		share *= float64(n) / float64(n-1) // the newest is never late
	}
	bound, beyond := float64(s.LateBound.Milliseconds()), float64(Far.Milliseconds())
	who := uint64(i)
	if s.Scrapes {
		who = uint64(target(i))
	}
	next := n - 1 // the oldest sample in order that is newer than k
	for k := n - 1; k >= 0; k-- {
		h := mix(s.Seed^saltOrder, who, uint64(k))
		if k == n-1 || unit(h) >= share || float64(next-k)*interval > bound {
			keys[k], next = uint32(2*(k/s.Entry)), k
			continue
		}
		u := unit(mix(s.Seed^saltDelay, who, uint64(k)))
		delay := u * bound
		if unit(scramble(h)) < s.LateFar && float64(n-1-k)*interval > beyond {
			delay = beyond + u*(bound-beyond)
		}
		if delay > beyond {
			far++
		}
		arrival := max(k+int(delay/interval), next)
		keys[k] = uint32(2*(arrival/s.Entry) + 1)
		late++
	}
	return late, far
}
