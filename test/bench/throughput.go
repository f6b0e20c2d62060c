package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/AlaudaDevops/countersign/test/bench/load"
	"github.com/AlaudaDevops/countersign/test/bench/measure"
	"github.com/AlaudaDevops/countersign/test/bench/process"
	"github.com/AlaudaDevops/countersign/test/bench/report"
	"github.com/AlaudaDevops/countersign/test/bench/serve"
	"github.com/AlaudaDevops/countersign/test/bench/world"
)

// item is the path that every proxy forwards.
const item = "/item"

// open opens the environment, starts the tool and protects it.
func (b *bench) open(ctx context.Context) (stop func(), err error) {
	if b.world, err = world.Open(b.dir); err != nil {
		return nil, err
	}
	tool, address, err := process.StartListening(ctx, b.self, "tool")
	if err != nil {
		return nil, err
	}
	b.tool, b.toolPID = "http://"+address, tool.PID()
	for _, name := range []string{loaded, answered} {
		if err := b.world.Protect(ctx, name, b.tool); err != nil {
			tool.Stop()
			return nil, err
		}
	}
	return tool.Stop, nil
}

// The places of the parties in a round.
const (
	bare = iota
	person
	pod
	peer
)

func throughput(ctx context.Context, b *bench) ([]report.Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parties, stop, err := b.parties(ctx)
	defer stop()
	if err != nil {
		return nil, err
	}
	bed := measure.Bed{Self: b.self, ToolPID: b.toolPID, Parties: parties}
	rounds, err := measure.Rounds(ctx, b.out, bed, b.rounds, b.plan)
	if err != nil {
		return nil, err
	}
	b.foreign = measure.Foreign(rounds)
	b.note("Throughput: %d connections, answers of %d bytes, %d rounds of %v for each proxy.",
		b.plan.Connections, serve.BodyBytes, b.rounds, b.plan.Duration)
	return throughputRows(rounds), nil
}

// parties starts those that do not run yet, and makes sure that each lets the load through.
func (b *bench) parties(ctx context.Context) (parties []measure.Party, stop func(), err error) {
	var started []*process.Process
	stop = func() {
		for _, p := range started {
			p.Stop()
		}
	}
	bareProcess, bareAddress, err := b.startBare(ctx)
	if err != nil {
		return nil, stop, err
	}
	started = append(started, bareProcess)
	peerProcess, peerAddress, err := b.startPeer(ctx)
	if err != nil {
		return nil, stop, err
	}
	started = append(started, peerProcess)
	proxyPID, err := process.ReadPID(b.world.PIDFile("proxy"))
	if err != nil {
		return nil, stop, err
	}
	podToken, err := b.obtainBoth(ctx)
	if err != nil {
		return nil, stop, err
	}
	token, proxyURL := b.world.TokenFile(world.Developer), b.world.ProxyURL(loaded, item)
	parties = []measure.Party{
		bare:   {Name: "bare", Target: b.target("https://"+bareAddress+item, token), PID: bareProcess.PID()},
		person: {Name: "countersign", Target: b.target(proxyURL, token), PID: proxyPID},
		pod:    {Name: "countersign (pod)", Target: b.target(proxyURL, podToken), PID: proxyPID},
		peer:   {Name: "kube-rbac-proxy", Target: b.target("https://"+peerAddress+item, token), PID: peerProcess.PID()},
	}
	for _, p := range parties {
		if err := answers(ctx, p); err != nil {
			return nil, stop, err
		}
	}
	return parties, stop, nil
}

func (b *bench) target(url, tokenFile string) load.Target {
	return load.Target{
		URL: url, Method: http.MethodGet, TokenFile: tokenFile, CAFile: b.world.CAFile(), Status: http.StatusOK, BodyBytes: serve.BodyBytes,
	}
}

// obtainBoth gets the developer his grant, and a pod's run its own; it returns the file of the pod's token.
func (b *bench) obtainBoth(ctx context.Context) (podToken string, err error) {
	if err := b.world.Obtain(ctx, loaded); err != nil {
		return "", fmt.Errorf("the developer got no grant: %w", err)
	}
	const job = "bench"
	runs, err := b.world.RunJob(ctx, job)
	if err != nil {
		return "", err
	}
	if err := b.world.Obtain(ctx, loaded, world.ForJob(job)); err != nil {
		return "", fmt.Errorf("the job got no grant: %w", err)
	}
	return b.world.ProxyTokenFile(ctx, runs)
}

func (b *bench) startBare(ctx context.Context) (*process.Process, string, error) {
	cert, key := b.world.ServingCertificate()
	return process.StartListening(ctx, b.self, "bare", "--tool", b.tool, "--tls-cert-file", cert, "--tls-private-key-file", key)
}

// startPeer starts kube-rbac-proxy as its project ships it: tokens by TokenReview, permissions by
// SubjectAccessReview, both from its caches once they are seen.
func (b *bench) startPeer(ctx context.Context) (*process.Process, string, error) {
	if err := b.world.LetRead(ctx, item); err != nil {
		return nil, "", err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	cert, key := b.world.ServingCertificate()
	p, err := process.Start(ctx, b.peer, "--secure-listen-address", address, "--upstream", b.tool,
		"--kubeconfig", b.world.Kubeconfig(), "--tls-cert-file", cert, "--tls-private-key-file", key)
	return p, address, err
}

// freeAddress is one that nobody listens on now; the peer cannot choose one by itself and tell it.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

const (
	answerPause   = 100 * time.Millisecond
	answerTimeout = 20 * time.Second
)

// answers waits until the party lets one request through, which fills its caches too.
func answers(ctx context.Context, party measure.Party) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for {
		_, err := load.Run(ctx, party.Target, load.Plan{Connections: 1, Duration: time.Millisecond})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s lets nothing through", party.Name), err)
		case <-time.After(answerPause):
		}
	}
}

func throughputRows(rounds []measure.Round) []report.Row {
	compare := func(what string, one, other int, goal float64) report.Row {
		ratio, spread := measure.Ratio(rounds, one, other, perSecond)
		return report.Row{
			What: what, Value: ratio, Unit: "×", Bound: report.AtLeast, Goal: goal,
			Detail: fmt.Sprintf("%s; %.0f and %.0f requests/s", spread, measure.Typical(rounds, one, perSecond), measure.Typical(rounds, other, perSecond)),
		}
	}
	rows := []report.Row{
		compare("throughput vs bare ReverseProxy, a person's token", person, bare, 0.95),
		compare("throughput vs bare ReverseProxy, a pod's token", pod, bare, 0.95),
		compare("throughput vs kube-rbac-proxy, the same token", person, peer, 1.7),
	}
	kubeRBAC, spread := measure.Ratio(rounds, peer, bare, perSecond)
	rows = append(rows, report.Row{What: "kube-rbac-proxy vs bare ReverseProxy", Value: kubeRBAC, Unit: "×", Detail: spread})
	return append(rows, costRows(rounds)...)
}

// costRows tell what throughput alone does not when the machine does other work too.
func costRows(rounds []measure.Round) []report.Row {
	idle := func(s measure.Sample) float64 { return 1 / float64(s.All) }
	even, evenSpread := measure.Ratio(rounds, person, bare, idle)
	cost, costSpread := measure.Ratio(rounds, person, bare, func(s measure.Sample) float64 { return float64(s.CPU) })
	return []report.Row{
		{What: "processor time that others took meanwhile", Value: 100 * measure.Foreign(rounds), Unit: "%"},
		{What: "requests for the same processor time vs bare ReverseProxy", Value: even, Unit: "×", Detail: evenSpread + "; load and tool included"},
		{What: "the proxy's own processor time for a request vs bare ReverseProxy", Value: cost, Unit: "×", Detail: costSpread + "; " + times(rounds)},
	}
}

// times tells processor time and waiting time of each party.
func times(rounds []measure.Round) string {
	cpu := func(s measure.Sample) time.Duration { return s.CPU }
	p99 := func(s measure.Sample) time.Duration { return s.P99 }
	text := func(party int) string {
		return fmt.Sprintf("%v, p99 %v", measure.Typical(rounds, party, cpu).Round(time.Microsecond),
			measure.Typical(rounds, party, p99).Round(100*time.Microsecond))
	}
	return "countersign " + text(person) + ", bare " + text(bare) + ", kube-rbac-proxy " + text(peer)
}
