// Package report holds what was measured against what the design wants, and prints it.
package report

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Bound says on which side of the goal a value has to be.
type Bound int

const (
	// None is a value without a goal, shown to understand the others.
	None Bound = iota
	// AtLeast is met by the goal and anything above.
	AtLeast
	// AtMost is met by the goal and anything below.
	AtMost
)

// Row is one measured value.
type Row struct {
	What  string
	Value float64
	// Unit stands behind value and goal; "×" for ratios.
	Unit string
	// Detail tells spread and parts of the value.
	Detail string
	Bound  Bound
	Goal   float64
}

// Met tells whether the goal is reached; a value without a goal meets it.
func (r Row) Met() bool {
	switch r.Bound {
	case AtLeast:
		return r.Value >= r.Goal
	case AtMost:
		return r.Value <= r.Goal
	}
	return true
}

func (r Row) verdict() string {
	switch {
	case r.Bound == None:
		return ""
	case r.Met():
		return "met"
	}
	return "NOT MET"
}

func (r Row) goal() string {
	sign := map[Bound]string{AtLeast: "≥ ", AtMost: "≤ "}[r.Bound]
	if sign == "" {
		return ""
	}
	return sign + quantity(r.Goal, r.Unit)
}

// quantity shows three digits, more before the point if there are more.
func quantity(value float64, unit string) string {
	digits := 2
	switch {
	case value >= 100 || value == float64(int64(value)):
		digits = 0
	case value >= 10:
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, value)
	if unit != "" {
		text += " " + unit
	}
	return text
}

// Print writes the rows as one table.
func Print(out io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "WHAT\tMEASURED\tGOAL\t\tDETAIL")
	for _, r := range rows {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.What, quantity(r.Value, r.Unit), r.goal(), r.verdict(), r.Detail)
	}
	return table.Flush()
}

// Median is the middle value, and the lower one of two; zero of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
