package drive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rwsink/rwsink/bench/load"
)

// Options say how a load is sent.
type Options struct {
	URL      string         // of the remote-write endpoint, http or https
	InFlight int            // requests under way a client; 0 is 1
	Rate     float64        // samples per second of all clients together; 0 is as fast as answers come
	Duration time.Duration  // after it nothing more is sent; 0 is no bound
	NoCounts bool           // of 2.0 are not looked at: the server counts nothing
	Progress func(Progress) // called every second, and at the end
}

// Endpoint is the URL, taken apart. The error, as any other here, does not quote
// it: it may hold a password.
func (o Options) Endpoint() (*url.URL, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the URL to write to cannot be parsed: want http://HOST:PORT/api/v1/write, or https")
	}
	return u, nil
}

// Reach connects to the endpoint and hangs up; the error names what cannot be sent to.
func (o Options) Reach(ctx context.Context) error {
	u, err := o.Endpoint()
	if err != nil {
		return err
	}
	conn, err := dial(ctx, u)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Progress is how far a run is.
type Progress struct {
	Requests, Samples int // answered, and taken
	Of                int // samples of the load
	Elapsed           time.Duration
}

// Result is what a run gave.
type Result struct {
	Wall      time.Duration // from the first byte sent to the last answer
	Requests  int           // answered
	Samples   int           // of requests that were answered with 2xx
	Bytes     int64         // of these requests, compressed
	Status    map[int]int   // answers by status
	Miscounts int           // answers of 2.0 whose count of written samples is not that of the request
	Refusal   string        // the first answer that was not 2xx, or a miscount
	latencies []time.Duration
}

// Latency returns the quantile q, from 0 to 1, of the time between a request and its answer.
func (r *Result) Latency(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(r.latencies)))) - 1
	return r.latencies[min(max(at, 0), len(r.latencies)-1)]
}

// Complete is nil when every request of the set was answered with success and
// the right counts.
func (r *Result) Complete(set *load.Set) error {
	if r.Refusal != "" {
		return errors.New(r.Refusal)
	}
	if r.Samples != set.Total() {
		return fmt.Errorf("%d of %d samples were sent and acknowledged", r.Samples, set.Total())
	}
	return nil
}

func (r *Result) add(o *Result) {
	r.Requests += o.Requests
	r.Samples += o.Samples
	r.Bytes += o.Bytes
	r.Miscounts += o.Miscounts
	for s, n := range o.Status {
		r.Status[s] += n
	}
	if r.Refusal == "" {
		r.Refusal = o.Refusal
	}
	r.latencies = append(r.latencies, o.latencies...)
}

// Run sends the set. The result is valid, as far as it goes, with an error too.
func Run(ctx context.Context, set *load.Set, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &Result{Status: map[int]int{}}
	clients, err := dialAll(ctx, set, o)
	if err != nil {
		return r, err
	}
	var requests, samples atomic.Int64
	start := time.Now()
	stop := watch(o.Progress, func() Progress {
		return Progress{int(requests.Load()), int(samples.Load()), set.Total(), time.Since(start)}
	})
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			errs[i] = c.run(ctx, start, func(n int) { requests.Add(1); samples.Add(int64(n)) })
			if errs[i] != nil {
				cancel() // the others stop too
			}
		})
	}
	wg.Wait()
	r.Wall = time.Since(start)
	stop()
	for _, c := range clients {
		c.close()
		r.add(&c.result)
	}
	slices.Sort(r.latencies)
	slices.SortStableFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
	return r, errs[0]
}

// rank puts what went wrong before what was cancelled for it, and both before nil.
func rank(err error) int {
	switch {
	case err == nil:
		return 2
	case errors.Is(err, context.Canceled):
		return 1
	}
	return 0
}

// watch calls f with the progress every second and at the end, which stop is.
func watch(f func(Progress), at func() Progress) (stop func()) {
	if f == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f(at())
			case <-done:
				f(at())
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
