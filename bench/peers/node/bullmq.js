// BullMQ, 100 jobs at once: `bullmq.js REDIS_URL COUNT POISON_EVERY` fills a queue and works it off. Three attempts without
// a pause, then a job is in BullMQ's set of the failed. Says: handled, parked, seconds, seconds of processor, megabytes.
const fs = require("fs");
const { Queue, Worker } = require("bullmq");

const [url, count, every] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

async function fill(queue) {
  const body = "x".repeat(1000);
  for (let from = 0; from < count; from += 1000) {
    const numbers = Array.from({ length: Math.min(1000, count - from) }, (_, i) => from + i);
    const opts = { attempts: 3, removeOnComplete: true };
    await queue.addBulk(numbers.map((number) => ({ name: "work", data: { number, body }, opts })));
  }
}

async function main() {
  const queue = new Queue("bullmq", { connection });
  await fill(queue);
  let [handled, parked] = [0, 0];
  let began, before;
  const work = async (job) => {
    began ??= process.hrtime.bigint();
    before ??= process.cpuUsage();
    if (every && job.data.number % every === 0) throw new Error("poison");
  };
  await new Promise((all) => {
    const worker = new Worker("bullmq", work, { connection, concurrency: 100 });
    worker.on("completed", () => ++handled + parked === count && all());
    worker.on("failed", (job) => job.attemptsMade === 3 && ++parked + handled === count && all());
  });
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  const { user, system } = process.cpuUsage(before);
  const failed = await queue.getFailedCount();
  if (failed !== parked) throw new Error(`${failed} failed jobs, ${parked} were counted`);
  const peak = Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))[1]) / 1024;
  console.log(handled, parked, seconds, (user + system) / 1e6, peak);
  process.exit(0);
}

main();
