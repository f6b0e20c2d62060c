package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/spf13/pflag"
)

// The programs that up passes settings on to, by the names of their binaries, processes and logs.
const (
	nameController = "controller"
	nameProxy      = "proxy"
)

// setting is a flag of up that is passed on to a program, which has a flag of the same name.
type setting struct {
	name, program, usage string
}

func allSettings() []setting {
	return []setting{
		{"retention", nameController, "how long ended requests are kept"},
		{"tool-timeout", nameController, "bound of each call of the controller to a tool"},
		{"standing-recheck", nameController, "how often standing authors are verified again"},
		{"staleness", nameProxy, "how long watches of the proxy may be silent before everything is refused"},
		{"header-timeout", nameProxy, "how long the header of a request may take to arrive"},
		{"upstream-timeout", nameProxy, "how long a tool may take to begin its answer"},
		{"upstream-dial-timeout", nameProxy, "how long connecting to a tool may take"},
		{"stream-recheck", nameProxy, "the longest time between two decisions about a stream"},
	}
}

// settings are the values given, by flag. They are kept with the environment, so that a later up without them
// changes nothing.
type settings map[string]string

func addSettingFlags(flags *pflag.FlagSet) {
	for _, s := range allSettings() {
		flags.Duration(s.name, 0, s.usage+" (default: as shipped, or as given before)")
	}
}

// given returns the settings on this command line.
func given(flags *pflag.FlagSet) settings {
	found := settings{}
	for _, s := range allSettings() {
		if flags.Changed(s.name) {
			found[s.name] = flags.Lookup(s.name).Value.String()
		}
	}
	return found
}

// rememberSettings adds the settings to those of before and returns all.
func (p place) rememberSettings(added settings) (settings, error) {
	path := p.conf("settings.json")
	all := settings{}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if err := json.Unmarshal(content, &all); err != nil {
			return nil, fmt.Errorf("the settings in %s are damaged; delete that file and give them again: %w", path, err)
		}
	}
	maps.Copy(all, added)
	if content, err = json.Marshal(all); err != nil {
		return nil, err
	}
	return all, os.WriteFile(path, content, 0o600)
}

// args returns the flags for the program.
func (s settings) args(program string) []string {
	var args []string
	for _, one := range allSettings() {
		if value, ok := s[one.name]; ok && one.program == program {
			args = append(args, "--"+one.name+"="+value)
		}
	}
	return args
}
