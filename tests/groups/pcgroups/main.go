// The Go counterpart of the tests of consumer groups: one verb of orbit.go's pcgroups a run.
//
//	pcgroups URL VERB JSON
//
// The JSON object has the arguments of the verb. The result is a line of JSON on stdout; an error is a line on stderr
// and exit code 1. `consume` writes a line for each message that it has acknowledged, until stdin ends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/pcgroups"
)

type arguments struct {
	Kind          string                        `json:"kind"`
	Stream        string                        `json:"stream"`
	Group         string                        `json:"group"`
	Partitions    uint                          `json:"partitions"`
	Filters       []pcgroups.PartitioningFilter `json:"filters"`
	StaticFilters []string                      `json:"static_filters"`
	Members       []string                      `json:"members"`
	Mappings      []pcgroups.MemberMapping      `json:"mappings"`
	MaxMsgs       int64                         `json:"max_msgs"`
	MaxBytes      int64                         `json:"max_bytes"`
	Member        string                        `json:"member"`
	AckWait       float64                       `json:"ack_wait"`
	MaxAckPending int                           `json:"max_ack_pending"`
	Work          float64                       `json:"work"`
}

// Message that the member has acknowledged, or has failed to.
type handled struct {
	Subject   string `json:"subject"`
	Data      string `json:"data"`
	Sequence  uint64 `json:"seq"`
	Delivered uint64 `json:"delivered"`
	Pin       string `json:"pin"`
	Started   int64  `json:"started"`
	Ended     int64  `json:"ended"`
	Error     string `json:"error"`
}

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: pcgroups URL VERB JSON"))
	}
	var args arguments
	must(json.Unmarshal([]byte(os.Args[3]), &args))
	connection, err := nats.Connect(os.Args[1], nats.Timeout(10*time.Second))
	must(err)
	defer connection.Close()
	js, err := jetstream.New(connection)
	must(err)
	result, err := run(context.Background(), js, os.Args[2], args)
	must(err)
	write(result)
}

func run(ctx context.Context, js jetstream.JetStream, verb string, a arguments) (any, error) {
	static := a.Kind == "static"
	switch verb {
	case "create":
		if static {
			return pcgroups.CreateStatic(ctx, js, a.Stream, a.Group, a.Partitions, a.StaticFilters, a.Members, a.Mappings)
		}
		return pcgroups.CreateElastic(ctx, js, a.Stream, a.Group, a.Partitions, a.Filters, a.MaxMsgs, a.MaxBytes)
	case "config":
		if static {
			return pcgroups.GetStaticConsumerGroupConfig(ctx, js, a.Stream, a.Group)
		}
		return pcgroups.GetElasticConsumerGroupConfig(ctx, js, a.Stream, a.Group)
	case "list":
		if static {
			return pcgroups.ListStaticConsumerGroups(ctx, js, a.Stream)
		}
		return pcgroups.ListElasticConsumerGroups(ctx, js, a.Stream)
	case "add":
		return pcgroups.AddMembers(ctx, js, a.Stream, a.Group, a.Members)
	case "remove":
		return pcgroups.DeleteMembers(ctx, js, a.Stream, a.Group, a.Members)
	case "map":
		return nil, pcgroups.SetMemberMappings(ctx, js, a.Stream, a.Group, a.Mappings)
	case "unmap":
		return nil, pcgroups.DeleteMemberMappings(ctx, js, a.Stream, a.Group)
	case "active":
		if static {
			return pcgroups.ListStaticActiveMembers(ctx, js, a.Stream, a.Group)
		}
		return pcgroups.ListElasticActiveMembers(ctx, js, a.Stream, a.Group)
	case "step-down":
		if static {
			return nil, pcgroups.StaticMemberStepDown(ctx, js, a.Stream, a.Group, a.Member)
		}
		return nil, pcgroups.ElasticMemberStepDown(ctx, js, a.Stream, a.Group, a.Member)
	case "delete":
		if static {
			return nil, pcgroups.DeleteStatic(ctx, js, a.Stream, a.Group)
		}
		return nil, pcgroups.DeleteElastic(ctx, js, a.Stream, a.Group)
	case "filters":
		config, err := pcgroups.GetElasticConsumerGroupConfig(ctx, js, a.Stream, a.Group)
		if err != nil {
			return nil, err
		}
		return pcgroups.ElasticGetPartitionFilters(*config, a.Member), nil
	case "consume":
		return nil, consume(ctx, js, a)
	}
	return nil, fmt.Errorf("there is no verb %q", verb)
}

func consume(ctx context.Context, js jetstream.JetStream, a arguments) error {
	config := jetstream.ConsumerConfig{
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       time.Duration(a.AckWait * float64(time.Second)),
		MaxAckPending: a.MaxAckPending,
	}
	handler := func(msg jetstream.Msg) {
		one := handled{Subject: msg.Subject(), Data: string(msg.Data()), Pin: msg.Headers().Get("Nats-Pin-Id")}
		if found, err := msg.Metadata(); err == nil {
			one.Sequence, one.Delivered = found.Sequence.Stream, found.NumDelivered
		}
		one.Started = time.Now().UnixNano()
		time.Sleep(time.Duration(a.Work * float64(time.Second)))
		ackCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := msg.DoubleAck(ackCtx); err != nil {
			one.Error = err.Error()
		}
		one.Ended = time.Now().UnixNano()
		write(one)
	}
	join := pcgroups.ElasticConsume
	if a.Kind == "static" {
		join = pcgroups.StaticConsume
	}
	member, err := join(ctx, js, a.Stream, a.Group, a.Member, handler, config)
	if err != nil {
		return err
	}
	write("joined")
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case err = <-member.Done():
		return err
	case <-ended:
		member.Stop()
		return <-member.Done()
	}
}

var (
	output = bufio.NewWriter(os.Stdout)
	lock   sync.Mutex
)

func write(value any) {
	lock.Lock()
	defer lock.Unlock()
	text, err := json.Marshal(value)
	must(err)
	_, _ = output.Write(append(text, '\n'))
	_ = output.Flush()
}

func must(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
