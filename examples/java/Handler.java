// A handler in Java, with what the JDK has: an order without a price is refused. Run it: java Handler.java
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Handler {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "9000"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            String order = new String(exchange.getRequestBody().readAllBytes());
            int status = order.contains("\"price\"") ? 204 : 422; // done, or a dead letter
            exchange.sendResponseHeaders(status, -1);
            exchange.close();
        });
        server.start();
    }
}
