// Asynq on Redis, 100 tasks at once: `asynq REDIS_URL COUNT POISON_EVERY` fills a queue and works it off. A poisoned task is
// tried three times without a pause, then Asynq archives it. Says: handled, parked, seconds, seconds of processor, megabytes.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"dlo.bench/stage"
)

const (
	queue = "asynq"
	// atOnce is as many as BullMQ is given.
	atOnce = 100
	// look is how often Asynq looks for retries that are due, and for work when it had none. By default it is 5 seconds
	// and 1 second, which would measure its patience.
	look = 10 * time.Millisecond
)

func main() {
	redis, err := asynq.ParseRedisURI(os.Args[1])
	stage.Must(err)
	count, every := stage.Number(os.Args[2]), stage.Number(os.Args[3])
	fill(redis, count, every)

	var tally stage.Tally
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency:              atOnce,
		Queues:                   map[string]int{queue: 1},
		LogLevel:                 asynq.FatalLevel,
		TaskCheckInterval:        look,
		DelayedTaskCheckInterval: look,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, _ *asynq.Task, _ error) {
			if retried, _ := asynq.GetRetryCount(ctx); retried == stage.Attempts-1 {
				tally.End(true)
			}
		}),
	})
	stage.Must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		tally.Touch()
		if err := stage.Handle(task.Payload()); err != nil {
			return err
		}
		tally.End(false)
		return nil
	})))
	settle(asynq.NewInspector(redis), &tally, count)
	tally.Say()
}

// fill enqueues everything before the first task is taken.
func fill(redis asynq.RedisConnOpt, count, every int) {
	client := asynq.NewClient(redis)
	defer client.Close()
	var fillers sync.WaitGroup
	const share = 8
	for from := range share {
		fillers.Add(1)
		go func() {
			defer fillers.Done()
			for n := from; n < count; n += share {
				task := asynq.NewTask("work", stage.Body(n, every))
				_, err := client.Enqueue(task, asynq.Queue(queue), asynq.MaxRetry(stage.Attempts-1))
				stage.Must(err)
			}
		}()
	}
	fillers.Wait()
}

// settle waits until every task has met its end and Redis knows it.
func settle(inspector *asynq.Inspector, tally *stage.Tally, count int) {
	for tally.Ended() < count {
		time.Sleep(time.Millisecond)
	}
	for {
		info, err := inspector.GetQueueInfo(queue)
		stage.Must(err)
		if info.Pending+info.Active+info.Retry+info.Scheduled == 0 {
			if parked := tally.Parked(); info.Archived != parked {
				stage.Must(fmt.Errorf("%d tasks in the archive, %d were counted", info.Archived, parked))
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}
