// Package stage is what the peers in Go share: the message that everybody handles, and the line in which a peer says what
// it did. The clock runs from the first message in a handler's hands.
package stage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Size is the number of bytes of a body.
const Size = 1024

// Attempts of a poisoned message: two retries, then it is a dead letter.
const Attempts = 3

// ErrPoison is what a handler answers to a poisoned message.
var ErrPoison = errors.New("poison")

// Body makes the body of message n. Every which message is poisoned says every; 0: none. A poisoned body is no JSON, and
// its first byte says so.
func Body(n, every int) []byte {
	first := byte('{')
	if every > 0 && n%every == 0 {
		first = '!'
	}
	body := make([]byte, 0, Size)
	body = append(body, first)
	body = fmt.Appendf(body, `"id":%d,"order":"ORD-%09d","note":"`, n, n)
	body = append(body, bytes.Repeat([]byte{'x'}, Size-2-len(body))...)
	return append(body, '"', '}')
}

// Handle is the handler that does nothing: it looks at one byte.
func Handle(body []byte) error {
	if len(body) == 0 || body[0] != '{' {
		return ErrPoison
	}
	return nil
}

// Tally counts what was handled and what was parked, and holds the clock.
type Tally struct {
	handled, parked, ended atomic.Int64

	first  sync.Once
	began  time.Time
	before time.Duration
}

// Touch starts the clock; a handler calls it with every message.
func (t *Tally) Touch() {
	t.first.Do(func() { t.began, t.before = time.Now(), processor() })
}

// End counts a message that was handled or parked, and says how many have met their end by now: each number once.
func (t *Tally) End(parked bool) int {
	if parked {
		t.parked.Add(1)
	} else {
		t.handled.Add(1)
	}
	return int(t.ended.Add(1))
}

// Ended is how many messages have met their end.
func (t *Tally) Ended() int { return int(t.ended.Load()) }

// Parked is how many of them are dead letters.
func (t *Tally) Parked() int { return int(t.parked.Load()) }

// Say ends the clock and prints: handled, parked, seconds, seconds of processor, megabytes.
func (t *Tally) Say() {
	spent := time.Since(t.began)
	used := processor() - t.before
	fmt.Println(t.handled.Load(), t.parked.Load(), spent.Seconds(), used.Seconds(), peak())
}

// processor is the time that all threads of this process took so far.
func processor() time.Duration {
	var usage syscall.Rusage
	Must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peak is the most memory that this process ever held, in megabytes.
func peak() float64 {
	status, err := os.ReadFile("/proc/self/status")
	Must(err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			Must(err)
			return kilobytes / 1024
		}
	}
	return 0
}

// Number reads an argument of the command line.
func Number(text string) int {
	number, err := strconv.Atoi(text)
	Must(err)
	return number
}

// Must ends the program where a step failed: a peer that did not do its task has nothing to say.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
