package timewindow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func everyDay(from, to string) approvalv1alpha1.TimeWindow {
	return approvalv1alpha1.TimeWindow{From: from, To: to}
}

func on(from, to string, days ...approvalv1alpha1.Weekday) approvalv1alpha1.TimeWindow {
	return approvalv1alpha1.TimeWindow{Weekdays: days, From: from, To: to}
}

func TestAt(t *testing.T) {
	workdays := on("09:00", "17:00", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
	tests := map[string]struct {
		zone     string
		windows  []approvalv1alpha1.TimeWindow
		holidays []string
		now      string
		open     bool
		change   string // empty: beyond the horizon
	}{
		// 2026-03-02 is a Monday.
		"before":           {windows: []approvalv1alpha1.TimeWindow{workdays}, now: "2026-03-02T08:59:59Z", change: "2026-03-02T09:00:00Z"},
		"opening moment":   {windows: []approvalv1alpha1.TimeWindow{workdays}, now: "2026-03-02T09:00:00Z", open: true, change: "2026-03-02T17:00:00Z"},
		"last moment":      {windows: []approvalv1alpha1.TimeWindow{workdays}, now: "2026-03-02T16:59:59Z", open: true, change: "2026-03-02T17:00:00Z"},
		"closing moment":   {windows: []approvalv1alpha1.TimeWindow{workdays}, now: "2026-03-02T17:00:00Z", change: "2026-03-03T09:00:00Z"},
		"over the weekend": {windows: []approvalv1alpha1.TimeWindow{workdays}, now: "2026-03-06T20:00:00Z", change: "2026-03-09T09:00:00Z"},
		"on a holiday":     {windows: []approvalv1alpha1.TimeWindow{workdays}, holidays: []string{"2026-03-03"}, now: "2026-03-03T10:00:00Z", change: "2026-03-04T09:00:00Z"},
		"zone, not UTC":    {zone: "Asia/Shanghai", windows: []approvalv1alpha1.TimeWindow{workdays}, now: "2026-03-02T02:00:00Z", open: true, change: "2026-03-02T09:00:00Z"},
		"holiday of the zone": {zone: "Asia/Shanghai", windows: []approvalv1alpha1.TimeWindow{everyDay("00:00", "08:00")}, holidays: []string{"2026-03-03"},
			now: "2026-03-02T20:00:00Z", change: "2026-03-03T16:00:00Z"},

		"overnight, evening":          {windows: []approvalv1alpha1.TimeWindow{on("22:00", "06:00", "Monday")}, now: "2026-03-02T23:00:00Z", open: true, change: "2026-03-03T06:00:00Z"},
		"overnight, morning":          {windows: []approvalv1alpha1.TimeWindow{on("22:00", "06:00", "Monday")}, now: "2026-03-03T05:59:00Z", open: true, change: "2026-03-03T06:00:00Z"},
		"overnight, not this morning": {windows: []approvalv1alpha1.TimeWindow{on("22:00", "06:00", "Monday")}, now: "2026-03-02T05:00:00Z", change: "2026-03-02T22:00:00Z"},
		"overnight into a holiday":    {windows: []approvalv1alpha1.TimeWindow{everyDay("22:00", "06:00")}, holidays: []string{"2026-03-03"}, now: "2026-03-03T01:00:00Z", open: true, change: "2026-03-03T06:00:00Z"},
		"overnight, none opens on it": {windows: []approvalv1alpha1.TimeWindow{everyDay("22:00", "06:00")}, holidays: []string{"2026-03-03"}, now: "2026-03-03T23:00:00Z", change: "2026-03-04T22:00:00Z"},
		"from equals to":              {windows: []approvalv1alpha1.TimeWindow{on("09:00", "09:00", "Monday")}, now: "2026-03-03T08:00:00Z", open: true, change: "2026-03-03T09:00:00Z"},

		"windows that overlap join":  {windows: []approvalv1alpha1.TimeWindow{everyDay("09:00", "12:00"), everyDay("11:00", "15:00")}, now: "2026-03-02T10:00:00Z", open: true, change: "2026-03-02T15:00:00Z"},
		"windows that touch join":    {windows: []approvalv1alpha1.TimeWindow{everyDay("12:00", "15:00"), everyDay("09:00", "12:00")}, now: "2026-03-02T10:00:00Z", open: true, change: "2026-03-02T15:00:00Z"},
		"one inside the other":       {windows: []approvalv1alpha1.TimeWindow{everyDay("09:00", "17:00"), everyDay("10:00", "11:00")}, now: "2026-03-02T09:30:00Z", open: true, change: "2026-03-02T17:00:00Z"},
		"windows with a gap do not":  {windows: []approvalv1alpha1.TimeWindow{everyDay("09:00", "12:00"), everyDay("13:00", "15:00")}, now: "2026-03-02T10:00:00Z", open: true, change: "2026-03-02T12:00:00Z"},
		"the gap":                    {windows: []approvalv1alpha1.TimeWindow{everyDay("13:00", "15:00"), everyDay("09:00", "12:00")}, now: "2026-03-02T12:30:00Z", change: "2026-03-02T13:00:00Z"},
		"two days in a row":          {windows: []approvalv1alpha1.TimeWindow{on("00:00", "24:00", "Monday", "Tuesday")}, now: "2026-03-02T10:00:00Z", open: true, change: "2026-03-04T00:00:00Z"},
		"always open":                {windows: []approvalv1alpha1.TimeWindow{everyDay("00:00", "24:00")}, now: "2026-03-02T10:00:00Z", open: true},
		"always but for one holiday": {windows: []approvalv1alpha1.TimeWindow{everyDay("00:00", "24:00")}, holidays: []string{"2026-12-25"}, now: "2026-03-02T10:00:00Z", open: true, change: "2026-12-25T00:00:00Z"},
		"never":                      {now: "2026-03-02T10:00:00Z"},

		// Europe/Berlin: on 2026-03-29 02:00 becomes 03:00 (01:00Z); on 2026-10-25 03:00 becomes 02:00 (01:00Z).
		"day of 23 hours":              {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("00:00", "24:00")}, holidays: []string{"2026-03-30"}, now: "2026-03-29T10:00:00Z", open: true, change: "2026-03-29T22:00:00Z"},
		"spring, around the jump":      {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("01:00", "04:00")}, now: "2026-03-29T00:30:00Z", open: true, change: "2026-03-29T02:00:00Z"},
		"spring, opens in the gap":     {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("02:30", "04:00")}, now: "2026-03-29T00:59:59Z", change: "2026-03-29T01:00:00Z"},
		"spring, closes in the gap":    {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("01:00", "02:30")}, now: "2026-03-29T00:30:00Z", open: true, change: "2026-03-29T01:00:00Z"},
		"spring, wholly in the gap":    {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("02:15", "02:45")}, now: "2026-03-29T01:00:00Z", change: "2026-03-30T00:15:00Z"},
		"autumn, day of 25 hours":      {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("00:00", "24:00")}, holidays: []string{"2026-10-26"}, now: "2026-10-25T10:00:00Z", open: true, change: "2026-10-25T23:00:00Z"},
		"autumn, opens at the first":   {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("02:30", "04:00")}, now: "2026-10-25T00:29:59Z", change: "2026-10-25T00:30:00Z"},
		"autumn, closes at the first":  {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("01:00", "02:30")}, now: "2026-10-25T00:00:00Z", open: true, change: "2026-10-25T00:30:00Z"},
		"autumn, not again":            {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("01:00", "02:30")}, now: "2026-10-25T01:00:00Z", change: "2026-10-26T00:00:00Z"},
		"overnight across the jump":    {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("22:00", "06:00")}, now: "2026-03-29T01:00:00Z", open: true, change: "2026-03-29T04:00:00Z"},
		"same wall clock after spring": {zone: "Europe/Berlin", windows: []approvalv1alpha1.TimeWindow{everyDay("09:00", "17:00")}, now: "2026-03-30T06:59:00Z", change: "2026-03-30T07:00:00Z"},
		// In America/Santiago clocks jump at midnight: 2026-09-06 begins at 01:00 (04:00Z).
		"midnight that never was": {zone: "America/Santiago", windows: []approvalv1alpha1.TimeWindow{everyDay("00:00", "08:00")}, now: "2026-09-06T03:59:59Z", change: "2026-09-06T04:00:00Z"},
		// In Pacific/Apia the whole 2011-12-30 was left out.
		"day that never was": {zone: "Pacific/Apia", windows: []approvalv1alpha1.TimeWindow{on("09:00", "17:00", "Friday")}, now: "2011-12-30T09:00:00Z", change: "2012-01-05T19:00:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := Parse(&approvalv1alpha1.TimeWindowCheckSpec{TimeZone: tt.zone, Windows: tt.windows, Holidays: tt.holidays})
			require.NoError(t, err)
			now, err := time.Parse(time.RFC3339, tt.now)
			require.NoError(t, err)
			open, change := s.At(now)
			assert.Equal(t, tt.open, open)
			got := ""
			if !change.IsZero() {
				got = change.UTC().Format(time.RFC3339)
			}
			assert.Equal(t, tt.change, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct {
		spec approvalv1alpha1.TimeWindowCheckSpec
		want string
	}{
		"unknown zone":     {approvalv1alpha1.TimeWindowCheckSpec{TimeZone: "Mars/Olympus"}, `"Mars/Olympus" is no time zone that is known here: use a name such as Europe/Berlin`},
		"the machine's":    {approvalv1alpha1.TimeWindowCheckSpec{TimeZone: "Local"}, `"Local" is no time zone that is known here: use a name such as Europe/Berlin`},
		"no time":          {approvalv1alpha1.TimeWindowCheckSpec{Windows: []approvalv1alpha1.TimeWindow{everyDay("nine", "17:00")}}, `"nine" is no time of day: write HH:MM`},
		"beyond the day":   {approvalv1alpha1.TimeWindowCheckSpec{Windows: []approvalv1alpha1.TimeWindow{everyDay("09:00", "24:01")}}, `"24:01" is no time of day: write HH:MM`},
		"negative minutes": {approvalv1alpha1.TimeWindowCheckSpec{Windows: []approvalv1alpha1.TimeWindow{everyDay("09:-1", "17:00")}}, `"09:-1" is no time of day: write HH:MM`},
		"no date":          {approvalv1alpha1.TimeWindowCheckSpec{Holidays: []string{"2026-12-25", "2026-02-29"}}, `"2026-02-29" is no date: write a day of the calendar as YYYY-MM-DD`},
		"no weekday":       {approvalv1alpha1.TimeWindowCheckSpec{Windows: []approvalv1alpha1.TimeWindow{on("09:00", "17:00", "Caturday")}}, `"Caturday" is no day of the week: write Monday to Sunday`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(&tt.spec)
			assert.EqualError(t, err, tt.want)
		})
	}
}

// FuzzAt compares with the plain definition: open at every moment before the change, closed from it on, or the reverse.
func FuzzAt(f *testing.F) {
	f.Add(uint16(540), uint16(1020), uint8(0b0111110), int64(1774746000))
	f.Add(uint16(1320), uint16(360), uint8(0), int64(1792893600))
	f.Fuzz(func(t *testing.T, from, to uint16, days uint8, unix int64) {
		w := window{from: int(from) % minutesOfDay, to: int(to) % (minutesOfDay + 1), weekdays: map[time.Weekday]bool{}}
		if w.to <= w.from {
			w.to += minutesOfDay
		}
		for d := time.Sunday; d <= time.Saturday; d++ {
			if days&(1<<d) != 0 {
				w.weekdays[d] = true
			}
		}
		zone, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		s := &Schedule{zone: zone, windows: []window{w}}
		now := time.Unix(unix%4e9, 0)
		open, change := s.At(now)
		if change.IsZero() {
			return
		}
		require.True(t, change.After(now))
		before, sameChange := s.At(change.Add(-time.Second))
		require.Equal(t, open, before)
		require.True(t, change.Equal(sameChange))
		after, _ := s.At(change)
		require.NotEqual(t, open, after)
	})
}
