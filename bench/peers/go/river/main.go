// River on PostgreSQL: `river POSTGRES_URL COUNT POISON_EVERY` fills a table of jobs and works it off. A poisoned job is tried
// three times without a pause, then River discards it, which is its word for a dead letter that stays. Says: handled,
// parked, seconds, seconds of processor, megabytes.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"dlo.bench/stage"
)

const (
	// atOnce, cooldown and poll let it fetch often and much at a time. By default it waits 100 milliseconds between two
	// fetches, which would measure its patience.
	atOnce   = 1000
	cooldown = 2 * time.Millisecond
	poll     = 10 * time.Millisecond
	// batch is how many jobs are inserted at once.
	batch = 1000
)

type job struct {
	Body string `json:"body"`
}

func (job) Kind() string { return "work" }

type worker struct {
	river.WorkerDefaults[job]
	tally *stage.Tally
}

func (w *worker) Work(_ context.Context, job *river.Job[job]) error {
	w.tally.Touch()
	err := stage.Handle([]byte(job.Args.Body))
	if err == nil || job.Attempt == stage.Attempts {
		w.tally.End(err != nil)
	}
	return err
}

// atOnceAgain is a retry without a pause.
type atOnceAgain struct{}

func (atOnceAgain) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func main() {
	ctx := context.Background()
	count, every := stage.Number(os.Args[2]), stage.Number(os.Args[3])
	pool, err := pgxpool.New(ctx, os.Args[1])
	stage.Must(err)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet()})
	stage.Must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	stage.Must(err)
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	stage.Must(err)

	var tally stage.Tally
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{tally: &tally})
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown:     cooldown,
		FetchPollInterval: poll,
		Logger:            quiet(),
		MaxAttempts:       stage.Attempts,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atOnce}},
		RetryPolicy:       atOnceAgain{},
		Workers:           workers,
	})
	stage.Must(err)
	fill(ctx, client, count, every)
	stage.Must(client.Start(ctx))
	settle(ctx, pool, &tally, count)
	tally.Say()
	stage.Must(client.Stop(ctx))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// fill inserts everything before the first job is taken.
func fill(ctx context.Context, client *river.Client[pgx.Tx], count, every int) {
	for from := 0; from < count; from += batch {
		jobs := make([]river.InsertManyParams, 0, batch)
		for n := from; n < min(from+batch, count); n++ {
			jobs = append(jobs, river.InsertManyParams{Args: job{Body: string(stage.Body(n, every))}})
		}
		_, err := client.InsertManyFast(ctx, jobs)
		stage.Must(err)
	}
}

// settle waits until every job has met its end and PostgreSQL knows it.
func settle(ctx context.Context, pool *pgxpool.Pool, tally *stage.Tally, count int) {
	for tally.Ended() < count {
		time.Sleep(time.Millisecond)
	}
	for {
		var open, discarded int
		row := pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state NOT IN ('completed', 'discarded')),
			count(*) FILTER (WHERE state = 'discarded') FROM river_job`)
		stage.Must(row.Scan(&open, &discarded))
		if open == 0 {
			if discarded != tally.Parked() {
				stage.Must(fmt.Errorf("%d jobs are discarded, %d were counted", discarded, tally.Parked()))
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
