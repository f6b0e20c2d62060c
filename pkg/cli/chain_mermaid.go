package cli

import (
	"fmt"
	"strings"

	"github.com/AlaudaDevops/countersign/pkg/chain"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// maxLabel bounds a label of a diagram, in runes.
const maxLabel = 160

// mermaid draws the chain as a flowchart of Mermaid. Thick arrows are authenticated, plain ones asserted, dotted ones
// inferred.
func mermaid(c *chain.Chain) string {
	var out strings.Builder
	out.WriteString("flowchart TD\n")
	ids := map[string]string{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		ids[n.ID] = fmt.Sprintf("n%d", i+1)
		open, closing := mermaidShape(n.Type)
		fmt.Fprintf(&out, "  %s%s\"%s\"%s\n", ids[n.ID], open, label(mermaidTitle(n)), closing)
	}
	for i := range c.Links {
		l := &c.Links[i]
		fmt.Fprintf(&out, "  %s %s|\"%s\"| %s\n", ids[l.From], arrow(l.Grade), label(linkLabel(l)), ids[l.To])
	}
	if target, known := ids[c.Target]; known {
		fmt.Fprintf(&out, "  style %s stroke-width:4px\n", target)
	}
	for _, note := range c.Notes {
		fmt.Fprintf(&out, "  %%%% %s\n", strings.NewReplacer("{", "(", "}", ")").Replace(show(note)))
	}
	return out.String()
}

// mermaidShape is a pill for people, a flag for answers and uses, a box for objects.
func mermaidShape(t chain.NodeType) (open, closing string) {
	switch t {
	case chain.NodeUser:
		return "([", "])"
	case chain.NodeAnswer, chain.NodeUse:
		return ">", "]"
	}
	return "[", "]"
}

func mermaidTitle(n *chain.Node) string {
	title := nodeTitle(n)
	if n.Type == chain.NodeObject && n.State != "" && !inline(n) {
		title += ": " + n.State
	}
	return title
}

func arrow(g chain.Grade) string {
	switch g {
	case chain.Authenticated:
		return "==>"
	case chain.Asserted:
		return "-->"
	}
	return "-.->"
}

func linkLabel(l *chain.Link) string {
	text := string(l.Relation)
	if l.Relation == chain.RelationDemanded || l.Relation == chain.RelationWrote {
		text += " " + l.Text
	}
	if l.Through != "" {
		text += ", acting through " + l.Through
	}
	if l.At != nil {
		text += " " + stamp(l.At)
	}
	if l.Count > 1 {
		text += fmt.Sprintf(" (%d times)", l.Count)
	}
	return text + ", " + string(l.Grade)
}

// label is text within the quotes of a diagram: what Mermaid, Markdown or HTML would take for more than text is written
// as an entity code.
func label(text string) string {
	var out strings.Builder
	for _, r := range plaintext.Line(text, maxLabel) {
		if strings.ContainsRune("\"#&<>`\\|[](){}%;", r) {
			fmt.Fprintf(&out, "#%d;", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
