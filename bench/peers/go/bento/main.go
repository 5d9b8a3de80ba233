// Bento, the general stream processor, with only the parts that the benches use: `bento run config.yaml`.
//
// Drains: amqp_0_9 and redis_streams into sql_insert on SQLite. Redrive and push: amqp_0_9, redis_streams and http_client
// as outputs. The benches write the configs.
package main

import (
	"context"

	"github.com/warpstreamlabs/bento/public/service"

	_ "github.com/warpstreamlabs/bento/public/components/amqp09"
	_ "github.com/warpstreamlabs/bento/public/components/io"
	_ "github.com/warpstreamlabs/bento/public/components/pure"
	_ "github.com/warpstreamlabs/bento/public/components/redis"
	_ "github.com/warpstreamlabs/bento/public/components/sql/base"
	_ "modernc.org/sqlite"
)

func main() {
	service.RunCLI(context.Background())
}
