// Watermill on RabbitMQ: `watermill AMQP_URL QUEUE DEAD COUNT` works off a queue that is already filled. Its middleware tries
// a poisoned message three times, almost without a pause, then publishes it to DEAD and waits for the confirm. Says: handled,
// parked, seconds, seconds of processor, megabytes.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"dlo.bench/stage"
)

const (
	// handlers at once, as many as dramatiq has threads: each takes one message after the other.
	handlers = 16
	prefetch = 100
)

func main() {
	url, queue, dead, count := os.Args[1], os.Args[2], os.Args[3], stage.Number(os.Args[4])
	config := amqp.NewDurableQueueConfig(url)
	config.Consume.Qos.PrefetchCount = prefetch
	config.Publish.ConfirmDelivery = true
	config.Publish.ChannelPoolSize = handlers
	quiet := watermill.NopLogger{}
	subscriber, err := amqp.NewSubscriber(config, quiet)
	stage.Must(err)
	publisher, err := amqp.NewPublisher(config, quiet)
	stage.Must(err)
	poison, err := middleware.PoisonQueue(publisher, dead)
	stage.Must(err)
	retry := middleware.Retry{
		MaxRetries:      stage.Attempts - 1,
		InitialInterval: time.Microsecond,
		MaxInterval:     time.Microsecond,
		Multiplier:      1,
	}

	var tally stage.Tally
	all := make(chan struct{})
	router, err := message.NewRouter(message.RouterConfig{}, quiet)
	stage.Must(err)
	router.AddMiddleware(counting(&tally, count, all), poison, retry.Middleware)
	for number := range handlers {
		router.AddConsumerHandler(fmt.Sprintf("work-%d", number), queue, subscriber, func(msg *message.Message) error {
			tally.Touch()
			return stage.Handle(msg.Payload)
		})
	}
	go func() { stage.Must(router.Run(context.Background())) }()
	<-all
	tally.Say()
	// What is handled and not yet acknowledged would be there again for the next runner.
	stage.Must(router.Close())
}

// counting stands before all other middleware: what comes back to it has been handled or is in the dead-letter queue.
func counting(tally *stage.Tally, count int, all chan<- struct{}) message.HandlerMiddleware {
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := next(msg)
			if err != nil {
				return produced, err
			}
			if tally.End(stage.Handle(msg.Payload) != nil) == count {
				close(all)
			}
			return produced, nil
		}
	}
}
