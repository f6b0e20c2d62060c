package origin

import "slices"

// held is what a store holds.
type held struct {
	// nodes are kept by namespace and name, which are strings that the nodes hold anyway.
	nodes map[string]map[string]*Node
	// byRun holds Releases by the run that their status names; it stays empty for other kinds.
	byRun map[string][]*Node
}

func newHeld() *held {
	return &held{nodes: map[string]map[string]*Node{}, byRun: map[string][]*Node{}}
}

func (h *held) get(namespace, name string) (*Node, bool) {
	node, ok := h.nodes[namespace][name]
	return node, ok
}

// put returns what stood in the place before. The keys are strings of the node that stays.
func (h *held) put(node *Node) (old *Node) {
	old, _ = h.remove(node.Namespace, node.Name)
	inNamespace := h.nodes[node.Namespace]
	if inNamespace == nil {
		inNamespace = map[string]*Node{}
		h.nodes[node.Namespace] = inNamespace
	}
	inNamespace[node.Name] = node
	if run := runOf(node); run != "" {
		h.byRun[run] = append(h.byRun[run], node)
	}
	return old
}

func (h *held) remove(namespace, name string) (old *Node, found bool) {
	inNamespace := h.nodes[namespace]
	old, found = inNamespace[name]
	if !found {
		return nil, false
	}
	delete(inNamespace, name)
	if len(inNamespace) == 0 {
		delete(h.nodes, namespace)
	}
	h.forget(runOf(old), old)
	return old, true
}

func (h *held) forget(run string, release *Node) {
	if run == "" {
		return
	}
	left := slices.DeleteFunc(slices.Clone(h.byRun[run]), func(n *Node) bool { return n == release })
	if len(left) == 0 {
		delete(h.byRun, run)
		return
	}
	h.byRun[run] = left
}

func runOf(node *Node) string {
	if node.Release == nil {
		return ""
	}
	return node.Release.PipelineRun
}
