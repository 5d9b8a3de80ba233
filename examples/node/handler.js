// A handler in Node: an order without a price is refused. Run it: node handler.js
const http = require("node:http");

http.createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  const order = JSON.parse(body);
  response.statusCode = "price" in order ? 204 : 422; // done, or a dead letter
  response.end();
}).listen(process.env.PORT ?? 9000, "127.0.0.1");
