// The sidecar that one writes in Node: `sidecar.js AMQP_URL QUEUE PORT CONNECTIONS` posts each message to a handler over
// kept connections and acknowledges it when the answer is good. Runs until it is told to stop.
const http = require("http");
const amqp = require("amqplib");

const [url, queue] = process.argv.slice(2, 4);
const [port, connections] = process.argv.slice(4, 6).map(Number);

async function main() {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  await channel.prefetch(4 * connections);
  const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
  await channel.consume(queue, (message) => {
    const headers = { "content-type": "application/json", "content-length": message.content.length };
    const request = http.request({ host: "127.0.0.1", port, method: "POST", path: "/", agent, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => (answer.statusCode < 300 ? channel.ack(message) : channel.nack(message)));
    });
    request.on("error", () => channel.nack(message));
    request.end(message.content);
  });
  process.on("SIGTERM", async () => {
    await channel.close();
    await connection.close();
    process.exit(0);
  });
}

main();
