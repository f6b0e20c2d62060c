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
	// text tells that it is no duration.
	text bool
}

func allSettings() []setting {
	return []setting{
		{name: "retention", program: nameController, usage: "how long ended requests are kept"},
		{name: "directory-config", program: nameController, usage: "file that describes the directory of people, instead of the sample's", text: true},
		{name: "tool-timeout", program: nameController, usage: "bound of each call of the controller to a tool"},
		{name: "standing-recheck", program: nameController, usage: "how often standing authors are verified again"},
		{name: "staleness", program: nameProxy, usage: "how long watches of the proxy may be silent before everything is refused"},
		{name: "header-timeout", program: nameProxy, usage: "how long the header of a request may take to arrive"},
		{name: "upstream-timeout", program: nameProxy, usage: "how long a tool may take to begin its answer"},
		{name: "upstream-dial-timeout", program: nameProxy, usage: "how long connecting to a tool may take"},
		{name: "stream-recheck", program: nameProxy, usage: "the longest time between two decisions about a stream"},
	}
}

// settings are the values given, by flag. They are kept with the environment, so that a later up without them
// changes nothing.
type settings map[string]string

func addSettingFlags(flags *pflag.FlagSet) {
	for _, s := range allSettings() {
		const unset = " (default: as shipped, or as given before)"
		if s.text {
			flags.String(s.name, "", s.usage+unset)
			continue
		}
		flags.Duration(s.name, 0, s.usage+unset)
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
