package chain

import (
	"slices"
	"strings"
	"time"
)

// Chain is what follows from the facts: nodes, and who or what led to each.
type Chain struct {
	// Target is the ID of the node that was asked about.
	Target string `json:"target"`
	Nodes  []Node `json:"nodes"`
	Links  []Link `json:"links"`
	// Notes are sentences about what is missing.
	Notes []string `json:"notes,omitempty"`
}

// NodeType says what a node is.
type NodeType string

// Types of nodes.
const (
	NodeUser   NodeType = "User"
	NodeObject NodeType = "Object"
	// NodeAnswer is an answer of a kind that keeps no object for it.
	NodeAnswer NodeType = "Answer"
	// NodeUse is one use at the proxy, or several that are alike.
	NodeUse NodeType = "Use"
)

// Node is a user, an object, an answer or a use.
type Node struct {
	// ID is the UID of an object where it is known.
	ID        string   `json:"id"`
	Type      NodeType `json:"type"`
	Group     string   `json:"group,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	// Name is the exact user name of a user.
	Name    string     `json:"name,omitempty"`
	UID     string     `json:"uid,omitempty"`
	Created *time.Time `json:"created,omitempty"`
	// State is the state of a request or check, the decision of an answer, the verdict on a use.
	State string `json:"state,omitempty"`
	// Text is the words of who asked or answered, or what was used and how.
	Text string `json:"text,omitempty"`
	// Missing says why the object itself could not be read.
	Missing string `json:"missing,omitempty"`
}

// Relation says what a link means.
type Relation string

// Relations from a user.
const (
	RelationCreated   Relation = "created"
	RelationChanged   Relation = "changed"
	RelationDeleted   Relation = "deleted"
	RelationRequested Relation = "requested"
	RelationAskedToo  Relation = "asked too"
	RelationRevoked   Relation = "revoked"
	RelationWrote     Relation = "wrote"
	RelationGave      Relation = "gave"
	RelationMade      Relation = "made"
)

// Relations between what is no user. All but RelationDemanded form a tree.
const (
	// RelationCaused leads from an owner to what was made for it.
	RelationCaused Relation = "caused"
	// RelationAsked leads from a pod or run to the request that was made for it.
	RelationAsked Relation = "asked"
	// RelationChecks leads from a request to its checks.
	RelationChecks Relation = "checks"
	// RelationDemanded leads from a rule to the check that it wanted.
	RelationDemanded Relation = "demanded"
	// RelationAnswered leads from a check to an answer.
	RelationAnswered Relation = "answered"
	// RelationUsed leads from a request, pod or run to a use.
	RelationUsed Relation = "used"
)

// Link is one step of the chain.
type Link struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Relation Relation `json:"relation"`
	// Through is the user whom From impersonated for it.
	Through string     `json:"through,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	// Until is when it happened last, if Count is more than 1.
	Until *time.Time `json:"until,omitempty"`
	Count int        `json:"count,omitempty"`
	// Text is the words of who did it.
	Text     string     `json:"text,omitempty"`
	Grade    Grade      `json:"grade"`
	Why      string     `json:"why,omitempty"`
	Evidence []Evidence `json:"evidence"`
}

// inTree tells whether a link leads down the tree.
func (l *Link) inTree() bool {
	switch l.Relation {
	case RelationCaused, RelationAsked, RelationChecks, RelationAnswered, RelationUsed:
		return true
	}
	return false
}

// Node is the node with the ID; nil if there is none.
func (c *Chain) Node(id string) *Node {
	at := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.ID == id })
	if at < 0 {
		return nil
	}
	return &c.Nodes[at]
}

// Tree is a node with what it led to.
type Tree struct {
	*Node
	// By is the link by which the parent led here; nil at the root.
	By *Link
	// Actors are the links of users, and of rules, to the node, oldest first.
	Actors   []*Link
	Children []*Tree
}

// Trees are the nodes from those that nothing led to, downwards, the oldest first. Users are not among them.
func (c *Chain) Trees() []*Tree {
	trees := map[string]*Tree{}
	for i := range c.Nodes {
		trees[c.Nodes[i].ID] = &Tree{Node: &c.Nodes[i]}
	}
	for i := range c.Links {
		l := &c.Links[i]
		from, to := trees[l.From], trees[l.To]
		if l.inTree() && !from.under(to) {
			to.By, from.Children = l, append(from.Children, to)
			continue
		}
		to.Actors = append(to.Actors, l)
	}
	var roots []*Tree
	for i := range c.Nodes {
		t := trees[c.Nodes[i].ID]
		t.sort()
		if t.By == nil && t.Type != NodeUser && !t.onlyActs(c) {
			roots = append(roots, t)
		}
	}
	slices.SortStableFunc(roots, older)
	return roots
}

// under tells whether a tree is another one or part of it: owner references may form a circle.
func (t *Tree) under(other *Tree) bool {
	if t == other {
		return true
	}
	return slices.ContainsFunc(other.Children, t.under)
}

// onlyActs tells whether the node is shown beside what it acted on, as rules are.
func (t *Tree) onlyActs(c *Chain) bool {
	return slices.ContainsFunc(c.Links, func(l Link) bool { return l.From == t.ID && l.Relation == RelationDemanded })
}

func (t *Tree) sort() {
	slices.SortStableFunc(t.Children, older)
	slices.SortStableFunc(t.Actors, func(a, b *Link) int { return compareTimes(a.At, b.At) })
}

func older(a, b *Tree) int {
	if order := compareTimes(a.at(), b.at()); order != 0 {
		return order
	}
	return strings.Compare(a.Name, b.Name)
}

func (t *Tree) at() *time.Time {
	if t.Created == nil && t.By != nil {
		return t.By.At
	}
	return t.Created
}

// compareTimes puts unknown times first.
func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(*b)
}
