package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/AlaudaDevops/countersign/pkg/chain"
)

// chainText is the chain as trees, with who did what at each object.
func chainText(c *chain.Chain) string {
	t := &chainPrinter{chain: c}
	for _, root := range c.Trees() {
		t.line("%s", t.title(root))
		t.below(root, "")
	}
	for _, note := range c.Notes {
		t.line("note: %s", show(note))
	}
	return t.String()
}

type chainPrinter struct {
	strings.Builder
	chain *chain.Chain
}

func (t *chainPrinter) line(format string, args ...any) {
	fmt.Fprintf(&t.Builder, format+"\n", args...)
}

// below prints who acted on a node, and then what it led to.
func (t *chainPrinter) below(tree *chain.Tree, indent string) {
	bar := "   "
	if len(tree.Children) > 0 {
		bar = "|  "
	}
	if !inline(tree.Node) {
		for _, l := range tree.Actors {
			t.line("%s%s%s", indent, bar, t.actor(l))
		}
	}
	for i, child := range tree.Children {
		branch, deeper := "|- ", "|  "
		if i == len(tree.Children)-1 {
			branch, deeper = "`- ", "   "
		}
		t.line("%s%s%s", indent, branch, t.title(child))
		t.below(child, indent+deeper)
	}
}

// inline tells whether a node is told in one line with who did it.
func inline(n *chain.Node) bool {
	return n.Type != chain.NodeObject || n.Kind == "ApprovalResponse"
}

func (t *chainPrinter) title(tree *chain.Tree) string {
	parts := []string{nodeTitle(tree.Node)}
	if inline(tree.Node) {
		parts = append(parts, t.doneBy(tree))
	} else if tree.UID != "" {
		parts = append(parts, "uid "+showName(tree.UID))
	}
	if !inline(tree.Node) {
		if tree.State != "" {
			parts = append(parts, showName(tree.State))
		}
		if tree.Text != "" {
			parts = append(parts, words(tree.Text))
		}
	}
	if tree.Missing != "" {
		parts = append(parts, show(tree.Missing))
	}
	line := strings.Join(parts, ", ")
	if tree.By != nil && (!inline(tree.Node) || len(tree.Actors) == 0) {
		line += " " + gradeText(tree.By)
	}
	if tree.ID == t.chain.Target {
		line += "  <-- asked about"
	}
	return line
}

// nodeTitle names a node for people.
func nodeTitle(n *chain.Node) string {
	switch {
	case n.Type == chain.NodeUser:
		return showName(n.Name)
	case n.Type == chain.NodeUse:
		return show(n.Text) + ": " + showName(n.State)
	case inline(n):
		text := decisionText(n.State)
		if n.Text != "" {
			text += " " + words(n.Text)
		}
		return text
	case n.Namespace == "":
		return showName(strings.ToLower(n.Kind) + "/" + n.Name)
	}
	return showName(strings.ToLower(n.Kind)+"/"+n.Name) + " in " + showName(n.Namespace)
}

// doneBy is who answered or used, and when.
func (t *chainPrinter) doneBy(tree *chain.Tree) string {
	text := "by nobody who is known"
	if len(tree.Actors) > 0 {
		l := tree.Actors[0]
		text = t.times(l) + "by " + t.who(l) + " " + gradeText(l)
		if tree.By != nil && tree.By.Grade != l.Grade {
			text = t.times(l) + "by " + t.who(l) + " " + gradeText(tree.By)
		}
	}
	if tree.By != nil && tree.By.Count > 1 && tree.By.Until != nil {
		text = fmt.Sprintf("%d times until %s, first %s", tree.By.Count, stamp(tree.By.Until), text)
	}
	return text
}

// actor is a link to an object as a line: what was done, when, by whom.
func (t *chainPrinter) actor(l *chain.Link) string {
	from := t.chain.Node(l.From)
	if l.Relation == chain.RelationDemanded {
		return fmt.Sprintf("for rule %s, %s %s%s", showName(from.Name), showName(l.Text), gradeText(l), t.authors(l))
	}
	text := string(l.Relation) + " " + t.times(l) + "by " + t.who(l)
	if l.Count > 1 && l.Until != nil {
		text += fmt.Sprintf(", %d times until %s", l.Count, stamp(l.Until))
	}
	if l.Text != "" {
		text += ": " + words(l.Text)
	}
	return text + " " + gradeText(l)
}

// authors are who wrote the rule as it stood then.
func (t *chainPrinter) authors(demanded *chain.Link) string {
	text := ""
	for i := range t.chain.Links {
		l := &t.chain.Links[i]
		if l.To == demanded.From && l.Relation == chain.RelationWrote && l.Text == demanded.Text {
			text += ", written " + t.times(l) + "by " + t.who(l) + " " + gradeText(l)
		}
	}
	if text == "" {
		return ", its author is not known"
	}
	return text
}

// who names the user of a link; of an impersonation both.
func (t *chainPrinter) who(l *chain.Link) string {
	from := t.chain.Node(l.From)
	text := nodeTitle(from)
	if l.Through != "" {
		text += ", acting through " + showName(l.Through)
	}
	return text
}

func (t *chainPrinter) times(l *chain.Link) string {
	if l.At == nil {
		return ""
	}
	return stamp(l.At) + " "
}

func stamp(at *time.Time) string { return at.UTC().Format(time.RFC3339) }

// gradeText is how far a link can be relied on, and if that is not all the way, why.
func gradeText(l *chain.Link) string {
	if l.Why == "" {
		return "[" + string(l.Grade) + "]"
	}
	return "[" + string(l.Grade) + ": " + show(l.Why) + "]"
}
