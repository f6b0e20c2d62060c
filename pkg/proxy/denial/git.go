package denial

import "strings"

// git is printed by git behind "remote:", line by line, if it is refused at info/refs; nothing is printed of a POST's
// answer.
func (d *Denial) git() []byte {
	lines := d.lines()
	lines[0] = "countersign: " + lines[0]
	return []byte(strings.Join(lines, "\n") + "\n")
}
