// Package timewindow reads the schedules of TimeWindowChecks.
//
// It stands beside the checks and below webhook and controller, because one refuses what the other could not read.
package timewindow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the image holds no time zones

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// horizon is how many days are searched for the next opening or closing: more than a year, so that every date that can
// be named as a holiday of the next year is passed.
const horizon = 400

// lookBack is how many days before today a window may have opened that is still open. Windows take at most a day by the
// wall clock; the second day is for clocks that are set back.
const lookBack = 2

// Schedule is a spec ready to be asked. Windows are read on the wall clock of the time zone: where it jumps ahead, a time
// that it skips is the moment of the jump; where it is set back, a time that it shows twice is the first of the two.
type Schedule struct {
	zone     *time.Location
	windows  []window
	holidays map[string]bool
}

// window is a span in minutes of the day; to may lie on the next day.
type window struct {
	weekdays map[time.Weekday]bool
	from, to int
}

// span is a window on one date.
type span struct{ opens, closes time.Time }

const minutesOfDay = 24 * 60

var weekdays = map[approvalv1alpha1.Weekday]time.Weekday{
	"Sunday": time.Sunday, "Monday": time.Monday, "Tuesday": time.Tuesday, "Wednesday": time.Wednesday,
	"Thursday": time.Thursday, "Friday": time.Friday, "Saturday": time.Saturday,
}

// Parse reads a spec. The error is one sentence for people.
func Parse(spec *approvalv1alpha1.TimeWindowCheckSpec) (*Schedule, error) {
	name := spec.TimeZone
	if name == "" {
		name = "UTC"
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is no time zone that is known here: use a name such as Europe/Berlin", name)
	}
	s := &Schedule{zone: zone, holidays: map[string]bool{}}
	for _, day := range spec.Holidays {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return nil, fmt.Errorf("%q is no date: write a day of the calendar as YYYY-MM-DD", day)
		}
		s.holidays[day] = true
	}
	for _, from := range spec.Windows {
		w, err := parseWindow(from)
		if err != nil {
			return nil, err
		}
		s.windows = append(s.windows, w)
	}
	return s, nil
}

func parseWindow(from approvalv1alpha1.TimeWindow) (w window, err error) {
	if w.from, err = parseMinutes(from.From); err != nil {
		return w, err
	}
	if w.to, err = parseMinutes(from.To); err != nil {
		return w, err
	}
	if w.to <= w.from {
		w.to += minutesOfDay
	}
	w.weekdays = map[time.Weekday]bool{}
	for _, name := range from.Weekdays {
		day, ok := weekdays[name]
		if !ok {
			return w, fmt.Errorf("%q is no day of the week: write Monday to Sunday", name)
		}
		w.weekdays[day] = true
	}
	return w, nil
}

func parseMinutes(text string) (int, error) {
	hours, minutes, ok := strings.Cut(text, ":")
	h, errH := strconv.Atoi(hours)
	m, errM := strconv.Atoi(minutes)
	if !ok || errH != nil || errM != nil || h < 0 || m < 0 || m > 59 || h*60+m > minutesOfDay {
		return 0, fmt.Errorf("%q is no time of day: write HH:MM", text)
	}
	return h*60 + m, nil
}

// Zone is the time zone in which people wrote the schedule.
func (s *Schedule) Zone() *time.Location { return s.zone }

// At tells whether a window is open now, and when that changes: when it closes, windows that join it included, or when
// the next one opens. A zero change lies beyond the horizon.
func (s *Schedule) At(now time.Time) (open bool, change time.Time) {
	today := now.In(s.zone)
	for offset := -lookBack; offset <= horizon; offset++ {
		for _, span := range s.on(today.Year(), today.Month(), today.Day()+offset) {
			switch {
			case open && span.opens.After(change):
				return true, change
			case open:
				change = latest(change, span.closes)
			case span.opens.After(now):
				return false, span.opens
			case span.closes.After(now):
				open, change = true, span.closes
			}
		}
	}
	return open, time.Time{}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// on lists the spans that open on a date, by their opening. What is over before it begins, because the wall clock jumped
// over it, is left out.
func (s *Schedule) on(year int, month time.Month, day int) []span {
	date := time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
	if s.holidays[date.Format(time.DateOnly)] {
		return nil
	}
	var spans []span
	for _, w := range s.windows {
		if len(w.weekdays) > 0 && !w.weekdays[date.Weekday()] {
			continue
		}
		sp := span{opens: s.instant(date, w.from), closes: s.instant(date, w.to)}
		if sp.closes.After(sp.opens) {
			spans = append(spans, sp)
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.opens.Compare(b.opens) })
	return spans
}

// instant is the first moment at which the wall clock shows the time on the date, or passes it.
func (s *Schedule) instant(date time.Time, minutes int) time.Time {
	want := time.Date(date.Year(), date.Month(), date.Day(), 0, minutes, 0, 0, time.UTC)
	for _, sample := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := want.Add(sample).In(s.zone).Zone()
		candidate := want.Add(-time.Duration(offset) * time.Second).In(s.zone)
		if wallClock(candidate).Equal(want) {
			return candidate
		}
	}
	return s.jump(want)
}

// jump is the moment at which the wall clock skipped the time. time.Date reads a skipped time in the zone before or after
// the jump; which one is not said.
func (s *Schedule) jump(want time.Time) time.Time {
	near := time.Date(want.Year(), want.Month(), want.Day(), want.Hour(), want.Minute(), 0, 0, s.zone)
	start, end := near.ZoneBounds()
	if wallClock(near).Before(want) {
		return end
	}
	return start
}

// wallClock is what a clock on the wall shows, written as if it were UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
