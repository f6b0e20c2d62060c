package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	// barEvery is how often a bar is drawn on a terminal, lineEvery how often a line is printed elsewhere.
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
	barWidth  = 12
	// lineWidth is what fits on any terminal.
	lineWidth = 79
)

// gauge tells how far the work is: on a terminal by a line that is drawn again and again, elsewhere by a line now and
// then.
type gauge struct {
	p     *program
	every time.Duration

	mu    sync.Mutex
	begun time.Time
	next  time.Time
	drawn int
	tally *tally
	// before is how many outcomes were counted before the work, of which there is total, began.
	before, total int
}

func newGauge(p *program) *gauge {
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	return &gauge{p: p, every: every, next: p.clock.Now().Add(every)}
}

// note tells what is being done before the work can be counted, if it is time to.
func (g *gauge) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.p.clock.Now(); !now.Before(g.next) {
		g.next = now.Add(g.every)
		g.draw(show(fmt.Sprintf(format, args...)))
	}
}

// say prints a line of the result.
func (g *gauge) say(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clear()
	g.p.say("%s", line)
}

// tell prints a line about it.
func (g *gauge) tell(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clear()
	g.p.tell(format, args...)
}

// run draws until the returned function is called, which takes the bar away.
func (g *gauge) run(counts *tally, total int) (stop func()) {
	g.mu.Lock()
	g.tally, g.before, g.total, g.begun = counts, counts.all(), total, g.p.clock.Now()
	g.mu.Unlock()
	ended, done := make(chan struct{}), make(chan struct{})
	ticker := g.p.clock.NewTicker(g.every)
	go func() {
		defer close(done)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C():
				g.mu.Lock()
				g.draw(g.line())
				g.mu.Unlock()
			}
		}
	}()
	return func() {
		close(ended)
		<-done
		g.mu.Lock()
		defer g.mu.Unlock()
		g.clear()
	}
}

// draw replaces the line on a terminal.
func (g *gauge) draw(line string) {
	if !g.p.terminal {
		g.p.tell("%s", line)
		return
	}
	if utf8.RuneCountInString(line) > lineWidth {
		line = string([]rune(line)[:lineWidth])
	}
	width := utf8.RuneCountInString(line)
	_, _ = fmt.Fprint(g.p.streams.ErrOut, "\r"+line+strings.Repeat(" ", max(0, g.drawn-width)))
	g.drawn = width
}

func (g *gauge) clear() {
	if g.drawn > 0 {
		_, _ = fmt.Fprint(g.p.streams.ErrOut, "\r"+strings.Repeat(" ", g.drawn)+"\r")
		g.drawn = 0
	}
}

// line is how far the counted work is.
func (g *gauge) line() string {
	assigned, refused := g.tally.of(outcomeAssigned), g.tally.of(outcomeRefused)+g.tally.of(outcomeFailed)
	done := g.tally.all() - g.before
	text := fmt.Sprintf("%d of %d (%d %%), assigned %d", done, g.total, percent(done, g.total), assigned)
	if refused > 0 {
		text += fmt.Sprintf(", refused %d", refused)
	}
	if left := g.remaining(done); left > 0 {
		text += ", " + duration.HumanDuration(left) + " left"
	}
	if !g.p.terminal {
		return text
	}
	full := barWidth * percent(done, g.total) / 100
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + text
}

func percent(done, total int) int {
	if total == 0 {
		return 100
	}
	return 100 * done / total
}

// remaining supposes that the work goes on as it went so far.
func (g *gauge) remaining(done int) time.Duration {
	if done == 0 {
		return 0
	}
	return g.p.clock.Since(g.begun) / time.Duration(done) * time.Duration(g.total-done)
}
