import java.io.File;
import java.lang.management.ManagementFactory;
import org.apache.activemq.artemis.core.config.FileDeploymentManager;
import org.apache.activemq.artemis.core.config.impl.FileConfiguration;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.server.impl.ActiveMQServerImpl;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;

/** An Artemis broker as its broker.xml says, with two users: `office` may do everything, `guest` nothing. */
public final class Server {
    public static void main(String[] arguments) throws Exception {
        FileConfiguration configuration = new FileConfiguration();
        FileDeploymentManager files = new FileDeploymentManager(new File(arguments[0]).toURI().toString());
        files.addDeployable(configuration);
        files.readConfiguration();
        SecurityConfiguration users = new SecurityConfiguration();
        users.addUser("office", "s3cret");
        users.addRole("office", "office");
        users.addUser("guest", "guest");
        users.addRole("guest", "guest");
        ActiveMQServerImpl server = new ActiveMQServerImpl(configuration, ManagementFactory.getPlatformMBeanServer(),
                new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                server.stop();
            } catch (Exception late) {
                late.printStackTrace();
            }
        }));
        server.start();
        Thread.currentThread().join();
    }
}
